package main

import (
	"fmt"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// failuresPerKey is how often each key fails.
const failuresPerKey = 5

// workqueueRateLimit asks the per-item exponential limiter alone: every key fails a few times, half of them are
// forgotten, and the count is how many are still remembered.
func workqueueRateLimit(a ask) (outcome, error) {
	keys := makeKeys(a.size)
	var o outcome
	var asking time.Duration
	var calls int64
	repeats := 0
	for ; o.cost.wall < enoughWork; repeats++ {
		limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 1000*time.Second)
		stopwatch := startStopwatch()
		var sum time.Duration
		for range failuresPerKey {
			for _, key := range keys {
				sum += limiter.When(key)
			}
		}
		asking += time.Since(stopwatch.started)
		for i := 0; i < len(keys); i += 2 {
			limiter.Forget(keys[i])
		}
		for _, key := range keys {
			if limiter.NumRequeues(key) > 0 {
				o.count++
			}
		}
		o.cost = o.cost.plus(stopwatch.cost())
		// 5, 10, 20, 40 and 80 ms for every key.
		if expected := 155 * time.Millisecond * time.Duration(len(keys)); sum != expected {
			return outcome{}, fmt.Errorf("the limiter asked for %v in all, not for %v", sum, expected)
		}
		calls += int64(len(keys) * failuresPerKey)
	}
	o.figures = map[string]float64{"repeats": float64(repeats), "ns_per_item": perItem(asking, calls)}
	return o, nil
}
