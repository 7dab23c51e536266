package main

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// enoughWork is how long a job's repetitions take together at least, so that the clock's grain does not matter.
const enoughWork = 300 * time.Millisecond

// makeKeys gives the keys of every work queue job.
func makeKeys(count int) []string {
	keys := make([]string, count)
	for i := range keys {
		keys[i] = fmt.Sprintf("ns-%d/name-%d", i%100, i)
	}
	return keys
}

func newQueue() workqueue.TypedRateLimitingInterface[string] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
}

// workers take from a queue until it is shut down and empty.
type workers struct {
	running sync.WaitGroup
	counts  []int64
}

func startWorkers(queue workqueue.TypedRateLimitingInterface[string], count int) *workers {
	w := &workers{counts: make([]int64, count)}
	for i := range count {
		w.running.Go(func() {
			// A counter of its own, so that the workers meet nowhere but in the queue.
			var handled int64
			for {
				key, shutdown := queue.Get()
				if shutdown {
					break
				}
				queue.Forget(key)
				queue.Done(key)
				handled++
			}
			w.counts[i] = handled
		})
	}
	return w
}

// wait gives how many items the workers have handled. The queue must be shut down.
func (w *workers) wait() int64 {
	w.running.Wait()
	var sum int64
	for _, count := range w.counts {
		sum += count
	}
	return sum
}

// workqueueTogether adds distinct keys while workers take them.
func workqueueTogether(a ask) (outcome, error) {
	keys := makeKeys(a.size)
	var o outcome
	repeats := 0
	for ; o.cost.wall < enoughWork; repeats++ {
		queue := newQueue()
		w := startWorkers(queue, a.workers)
		stopwatch := startStopwatch()
		for _, key := range keys {
			queue.Add(key)
		}
		queue.ShutDown() // What is in the queue is still handed out.
		o.count += w.wait()
		o.cost = o.cost.plus(stopwatch.cost())
	}
	o.figures = map[string]float64{"repeats": float64(repeats), "ns_per_item": perItem(o.cost.wall, o.count)}
	return o, nil
}

// workqueueQueued adds all distinct keys first, then lets workers take them.
func workqueueQueued(a ask) (outcome, error) {
	keys := makeKeys(a.size)
	var o outcome
	var drain time.Duration
	repeats := 0
	for ; o.cost.wall < enoughWork; repeats++ {
		queue := newQueue()
		stopwatch := startStopwatch()
		for _, key := range keys {
			queue.Add(key)
		}
		drainStarted := time.Now()
		w := startWorkers(queue, a.workers)
		queue.ShutDown()
		o.count += w.wait()
		drain += time.Since(drainStarted)
		o.cost = o.cost.plus(stopwatch.cost())
	}
	o.figures = map[string]float64{
		"repeats":           float64(repeats),
		"ns_per_item":       perItem(o.cost.wall, o.count),
		"drain_ns_per_item": perItem(drain, o.count),
	}
	return o, nil
}

func perItem(d time.Duration, count int64) float64 {
	return float64(d.Nanoseconds()) / float64(max(count, 1))
}
