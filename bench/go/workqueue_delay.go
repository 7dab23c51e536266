package main

import (
	"runtime"
	"sync/atomic"
	"time"
)

// delayStride visits the delays in an order that is neither rising nor falling; a prime, so that none is left out.
const delayStride = 7919

// workqueueDelay adds every key with a delay of its own, evenly spread over the window, and waits for all of them.
func workqueueDelay(a ask) (outcome, error) {
	keys := makeKeys(a.size)
	settle()
	resetPeak()
	before, _ := memory()

	queue := newQueue()
	var fired atomic.Int64
	for range a.workers {
		go func() {
			for {
				key, shutdown := queue.Get()
				if shutdown {
					return
				}
				queue.Forget(key)
				queue.Done(key)
				if fired.Add(1) == int64(a.size) {
					queue.ShutDown()
				}
			}
		}()
	}
	stopwatch := startStopwatch()
	for i, key := range keys {
		queue.AddAfter(key, a.window*time.Duration(i*delayStride%a.size)/time.Duration(a.size))
	}
	for !queue.ShuttingDown() {
		time.Sleep(time.Millisecond)
	}
	spent := stopwatch.cost()
	_, peak := memory()
	runtime.KeepAlive(keys)
	figures := map[string]float64{"bytes_per_key": float64(peak-before) / float64(a.size)}
	return outcome{count: fired.Load(), cost: spent, figures: figures}, nil
}
