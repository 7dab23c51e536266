package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// enoughReconciles is how long the rounds of no-op reconciles take together at least, so that no one hiccup matters.
const enoughReconciles = time.Second

func newManager(a ask) (ctrl.Manager, error) {
	config, err := a.config()
	if err != nil {
		return nil, err
	}
	return ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
}

// running is a manager that was started; it takes the error that ends it.
type running chan error

func start(manager ctrl.Manager) running {
	ended := make(running, 1)
	go func() { ended <- manager.Start(context.Background()) }()
	return ended
}

// until waits for a counter. It is an error if the manager ends before.
func (r running) until(c *counter) error {
	select {
	case <-c.reached:
		return nil
	case err := <-r:
		return fmt.Errorf("the manager ended: %w", err)
	}
}

// controllerRuntimeNoop reconciles the keys of cached objects that come from a channel, all of them in each round.
func controllerRuntimeNoop(a ask) (outcome, error) {
	manager, err := newManager(a)
	if err != nil {
		return outcome{}, err
	}
	events := make([]event.GenericEvent, a.size)
	for i := range events {
		events[i] = event.GenericEvent{Object: &metav1.PartialObjectMetadata{
			ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("team-%d", i%100), Name: fmt.Sprintf("object-%06d", i)},
		}}
	}
	// The first counter is for the reconciles of the list, each other one for those of a round.
	var current atomic.Pointer[counter]
	listed := newCounter(a.size)
	current.Store(&listed)
	channel := make(chan event.GenericEvent)
	err = ctrl.NewControllerManagedBy(manager).
		For(&corev1.ConfigMap{}).
		WatchesRawSource(source.Channel(channel, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: a.workers}).
		Complete(reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) {
			current.Load().add()
			return ctrl.Result{}, nil
		}))
	if err != nil {
		return outcome{}, err
	}
	running := start(manager)
	if err := running.until(&listed); err != nil {
		return outcome{}, err
	}
	var spent cost
	var count int64
	repeats := 0
	for spent.wall < enoughReconciles {
		round := newCounter(a.size)
		current.Store(&round)
		stopwatch := startStopwatch()
		for _, event := range events {
			channel <- event
		}
		if err := running.until(&round); err != nil {
			return outcome{}, err
		}
		spent = spent.plus(stopwatch.cost())
		count += round.value.Load()
		repeats++
	}
	figures := map[string]float64{
		"repeats":          float64(repeats),
		"reconciles_per_s": float64(count) / spent.wall.Seconds(),
		"ns_per_reconcile": spent.wall.Seconds() * 1e9 / float64(count),
	}
	return outcome{count: count, cost: spent, figures: figures, keep: manager}, nil
}

// controllerRuntimeIdle has a manager with a controller for each of ten kinds, which comes to rest when each object has been
// read by a reconcile.
func controllerRuntimeIdle(a ask) (outcome, error) {
	kinds := []client.Object{
		&corev1.ConfigMap{}, &corev1.Secret{}, &corev1.Service{}, &corev1.ServiceAccount{}, &corev1.PersistentVolumeClaim{},
		&appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1.DaemonSet{}, &batchv1.Job{}, &networkingv1.Ingress{},
	}
	read := newCounter(len(kinds) * a.size)
	stopwatch := startStopwatch()
	manager, err := newManager(a)
	if err != nil {
		return outcome{}, err
	}
	for _, kind := range kinds {
		reader := reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
			object := kind.DeepCopyObject().(client.Object)
			if err := manager.GetClient().Get(ctx, request.NamespacedName, object); err != nil {
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
			read.add()
			return ctrl.Result{}, nil
		})
		if err := ctrl.NewControllerManagedBy(manager).For(kind).Complete(reader); err != nil {
			return outcome{}, err
		}
	}
	if err := start(manager).until(&read); err != nil {
		return outcome{}, err
	}
	spent := stopwatch.cost()
	return outcome{count: read.value.Load(), cost: spent, keep: manager}, nil
}

// controllerRuntimeStart measures from the start of the process to its first reconcile, of a namespace: every cluster has
// some.
func controllerRuntimeStart(a ask) (outcome, error) {
	if a.started == 0 {
		return outcome{}, fmt.Errorf("needs --started")
	}
	manager, err := newManager(a)
	if err != nil {
		return outcome{}, err
	}
	first := newCounter(1)
	var at atomic.Int64
	err = ctrl.NewControllerManagedBy(manager).
		For(&corev1.Namespace{}).
		Complete(reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) {
			at.CompareAndSwap(0, time.Now().UnixNano())
			first.add()
			return ctrl.Result{}, nil
		}))
	if err != nil {
		return outcome{}, err
	}
	if err := start(manager).until(&first); err != nil {
		return outcome{}, err
	}
	spent := cost{wall: time.Duration(at.Load() - a.started), cpu: cpuTime()}
	if spent.wall < 0 {
		return outcome{}, fmt.Errorf("--started is later than the first reconcile")
	}
	return outcome{count: 1, cost: spent, keep: manager}, nil
}
