package main

// addsPerKey is how often each key is added in a row: a burst of changes to one object.
const addsPerKey = 10

// workqueueDedup adds every key again and again while workers take them; the queue folds what it can.
func workqueueDedup(a ask) (outcome, error) {
	keys := makeKeys(a.size)
	var o outcome
	var adds int64
	repeats := 0
	for ; o.cost.wall < enoughWork; repeats++ {
		queue := newQueue()
		w := startWorkers(queue, a.workers)
		stopwatch := startStopwatch()
		for _, key := range keys {
			for range addsPerKey {
				queue.Add(key)
				adds++
			}
		}
		queue.ShutDown()
		o.count += w.wait()
		o.cost = o.cost.plus(stopwatch.cost())
	}
	o.figures = map[string]float64{
		"repeats":     float64(repeats),
		"adds":        float64(adds),
		"ns_per_item": perItem(o.cost.wall, adds),
	}
	return o, nil
}
