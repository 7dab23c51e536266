package main

import (
	"sync"
	"sync/atomic"

	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// lowPriority is that of the initial list.
const lowPriority = -100

// workqueuePriority adds distinct keys, every other one with a low priority, while workers take them from controller-runtime's
// priority queue. What is left in that queue when it is shut down is not handed out, so it is shut down by whoever has the last key.
func workqueuePriority(a ask) (outcome, error) {
	keys := makeKeys(a.size)
	priorities := [2]int{lowPriority, 0}
	var o outcome
	repeats := 0
	for ; o.cost.wall < enoughWork; repeats++ {
		// Without a name it has no metrics. The one of ours has none either.
		queue := priorityqueue.New[string]("")
		var handled atomic.Int64
		var running sync.WaitGroup
		for range a.workers {
			running.Go(func() {
				for {
					key, _, shutdown := queue.GetWithPriority()
					if shutdown {
						return
					}
					queue.Forget(key)
					queue.Done(key)
					if handled.Add(1) == int64(len(keys)) {
						queue.ShutDown()
					}
				}
			})
		}
		stopwatch := startStopwatch()
		for i, key := range keys {
			queue.AddWithOpts(priorityqueue.AddOpts{Priority: &priorities[i%2]}, key)
		}
		running.Wait()
		o.cost = o.cost.plus(stopwatch.cost())
		o.count += handled.Load()
	}
	o.figures = map[string]float64{"repeats": float64(repeats), "ns_per_item": perItem(o.cost.wall, o.count)}
	return o, nil
}
