package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	latencyNamespace = "default"
	latencyName      = "steersman-bench-latency"
	// latencyPause lets the server come to rest between two writes.
	latencyPause = 5 * time.Millisecond
	// latencyPatience is how long a write may go unseen before the job has failed.
	latencyPatience = 10 * time.Second
)

// controllerRuntimeLatency measures from the start of a write to the start of the reconcile that sees it. The next
// write waits for that, so none is folded into another.
func controllerRuntimeLatency(a ask) (outcome, error) {
	ctx := context.Background()
	config, err := a.config()
	if err != nil {
		return outcome{}, err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return outcome{}, err
	}
	reconciler := writeReconciler{manager.GetClient(), make(chan sighting, 1000)}
	if err := ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Complete(reconciler); err != nil {
		return outcome{}, err
	}
	failed := make(chan error, 1)
	go func() { failed <- manager.Start(ctx) }()
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return outcome{}, err
	}
	maps := clientset.CoreV1().ConfigMaps(latencyNamespace)
	_ = maps.Delete(ctx, latencyName, metav1.DeleteOptions{}) // Left by a run that was interrupted.
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: latencyName}}
	if object, err = maps.Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return outcome{}, err
	}
	defer func() { _ = maps.Delete(ctx, latencyName, metav1.DeleteOptions{}) }()

	latencies := make([]time.Duration, 0, a.size)
	stopwatch := startStopwatch()
	// Write 0 only shows that the controller watches by now.
	for write := range a.size + 1 {
		time.Sleep(latencyPause)
		started := time.Now()
		object.Data = map[string]string{"write": strconv.Itoa(write)}
		if object, err = maps.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
			return outcome{}, err
		}
		seen, err := reconciler.wait(write, failed)
		if err != nil {
			return outcome{}, err
		}
		if write == 0 {
			stopwatch = startStopwatch()
		} else {
			latencies = append(latencies, seen.Sub(started))
		}
	}
	spent := stopwatch.cost()
	slices.Sort(latencies)
	figures := map[string]float64{
		"p50_us": microseconds(latencies[len(latencies)*50/100]),
		"p99_us": microseconds(latencies[len(latencies)*99/100]),
		"max_us": microseconds(latencies[len(latencies)-1]),
	}
	return outcome{count: int64(len(latencies)), cost: spent, figures: figures, keep: manager}, nil
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// sighting is a reconcile that saw a write.
type sighting struct {
	write int
	at    time.Time
}

type writeReconciler struct {
	client    client.Client
	sightings chan sighting
}

func (r writeReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	at := time.Now()
	if request.Name != latencyName {
		return ctrl.Result{}, nil
	}
	var object corev1.ConfigMap
	if err := r.client.Get(ctx, request.NamespacedName, &object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if write, err := strconv.Atoi(object.Data["write"]); err == nil {
		r.sightings <- sighting{write, at}
	}
	return ctrl.Result{}, nil
}

// wait gives the moment in which the first reconcile that saw the write started.
func (r writeReconciler) wait(write int, failed <-chan error) (time.Time, error) {
	patience := time.After(latencyPatience)
	for {
		select {
		case s := <-r.sightings:
			if s.write == write {
				return s.at, nil
			}
		case err := <-failed:
			return time.Time{}, fmt.Errorf("the manager ended: %w", err)
		case <-patience:
			return time.Time{}, fmt.Errorf("no reconcile saw write %d within %v", write, latencyPatience)
		}
	}
}
