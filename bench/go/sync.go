package main

import (
	"context"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// progress counts what a running framework has done and tells when it is enough.
type progress struct {
	// handled counts the objects that a worker found in the cache.
	handled counter
	// updates counts the updates that the event handlers saw.
	updates counter
	// failed takes the error that ends a framework early.
	failed chan error
	// keep is what the framework has built up.
	keep any
}

func newProgress(a ask) *progress {
	return &progress{handled: newCounter(a.size), updates: newCounter(a.events), failed: make(chan error, 1)}
}

// wait returns when the counter has reached its goal, or when the framework has ended early.
func (p *progress) wait(c *counter) error {
	select {
	case <-c.reached:
		return nil
	case err := <-p.failed:
		return err
	}
}

// counter counts and closes reached at its goal.
type counter struct {
	value   atomic.Int64
	goal    int64
	reached chan struct{}
}

func newCounter(goal int) counter {
	return counter{goal: int64(goal), reached: make(chan struct{})}
}

func (c *counter) add() {
	if c.value.Add(1) == c.goal {
		close(c.reached)
	}
}

// clientGoSync fills the cache of a shared informer and hands each object to a worker once.
func clientGoSync(a ask) (outcome, error) { return syncWith(a, startInformer) }

// controllerRuntimeSync has a controller reconcile every object, which it reads through its cached client.
func controllerRuntimeSync(a ask) (outcome, error) { return syncWith(a, startManager) }

func syncWith(a ask, start func(context.Context, ask) (*progress, error)) (outcome, error) {
	stopwatch := startStopwatch()
	p, err := start(context.Background(), a)
	if err != nil {
		return outcome{}, err
	}
	if err := p.wait(&p.handled); err != nil {
		return outcome{}, err
	}
	spent := stopwatch.cost()
	return outcome{count: p.handled.value.Load(), cost: spent, keep: p}, nil
}

// podInformers makes the informers of the replay.
func podInformers(a ask) (informers.SharedInformerFactory, error) {
	config, err := a.config()
	if err != nil {
		return nil, err
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return informers.NewSharedInformerFactory(clientset, 0), nil
}

// startInformer starts a shared informer for Pods with a work queue and workers, as a controller written with client-go
// alone has them.
func startInformer(ctx context.Context, a ask) (*progress, error) {
	factory, err := podInformers(a)
	if err != nil {
		return nil, err
	}
	p := newProgress(a)
	informer := factory.Core().V1().Pods().Informer()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	enqueue := func(object any) {
		if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
			queue.Add(key)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue,
		UpdateFunc: func(_, object any) {
			enqueue(object)
			p.updates.add()
		},
	}); err != nil {
		return nil, err
	}
	for range a.workers {
		go func() {
			for {
				key, shutdown := queue.Get()
				if shutdown {
					return
				}
				if _, exists, _ := informer.GetIndexer().GetByKey(key); exists {
					p.handled.add()
				}
				queue.Forget(key)
				queue.Done(key)
			}
		}()
	}
	factory.Start(ctx.Done())
	p.keep = informer
	return p, nil
}

// startManager starts a manager with one controller for Pods.
func startManager(ctx context.Context, a ask) (*progress, error) {
	config, err := a.config()
	if err != nil {
		return nil, err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return nil, err
	}
	p := newProgress(a)
	countUpdates := predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool {
		p.updates.add()
		return true
	}}
	err = ctrl.NewControllerManagedBy(manager).
		For(&corev1.Pod{}, builder.WithPredicates(countUpdates)).
		WithOptions(controller.Options{MaxConcurrentReconciles: a.workers}).
		Complete(podReconciler{manager.GetClient(), p})
	if err != nil {
		return nil, err
	}
	go func() { p.failed <- manager.Start(ctx) }()
	p.keep = manager
	return p, nil
}

type podReconciler struct {
	client   client.Client
	progress *progress
}

func (r podReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var pod corev1.Pod
	if err := r.client.Get(ctx, request.NamespacedName, &pod); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if pod.Spec.NodeName != "" && pod.Status.Phase != "" && pod.Status.PodIP != "" {
		r.progress.handled.add()
	}
	return ctrl.Result{}, nil
}
