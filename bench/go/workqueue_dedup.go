package main

// addsPerKey is how often each key is added in a row: a burst of changes to one object.
const addsPerKey = 10

// workqueueDedup adds every key again and again while workers take them; the queue folds what it can.
func workqueueDedup(a ask) (outcome, error) {
	keys := makeKeys(a.size)
	queue := newQueue()
	w := startWorkers(queue, a.workers)
	stopwatch := startStopwatch()
	var adds int64
	for _, key := range keys {
		for range addsPerKey {
			queue.Add(key)
			adds++
		}
	}
	queue.ShutDown()
	count := w.wait()
	spent := stopwatch.cost()
	figures := map[string]float64{"adds": float64(adds), "ns_per_item": perItem(spent.wall, adds)}
	return outcome{count: count, cost: spent, figures: figures}, nil
}
