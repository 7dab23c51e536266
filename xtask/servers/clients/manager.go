package main

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const finalizer = "example.com/copy"

// copier keeps a Secret for each ConfigMap with a label.
type copier struct {
	client.Client
	recorder events.EventRecorder
	runs     *atomic.Int64
}

func (c *copier) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	c.runs.Add(1)
	var source corev1.ConfigMap
	if err := c.Get(ctx, request.NamespacedName, &source); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if source.Labels["copy"] != "yes" {
		return ctrl.Result{}, nil
	}
	if !source.DeletionTimestamp.IsZero() {
		if controllerutil.RemoveFinalizer(&source, finalizer) {
			return ctrl.Result{}, c.Update(ctx, &source)
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(&source, finalizer) {
		return ctrl.Result{}, c.Update(ctx, &source)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: source.Namespace, Name: source.Name}}
	result, err := controllerutil.CreateOrUpdate(ctx, c.Client, secret, func() error {
		secret.Data = map[string][]byte{}
		for name, value := range source.Data {
			secret.Data[name] = []byte(value)
		}
		return controllerutil.SetControllerReference(&source, secret, c.Scheme())
	})
	if err == nil && result != controllerutil.OperationResultNone {
		c.recorder.Eventf(&source, nil, corev1.EventTypeNormal, "Copied", "Copy", "the Secret was %s", result)
	}
	return ctrl.Result{}, err
}

// elected starts a manager that takes part in leader election.
func elected(ctx context.Context, config *rest.Config, runs *atomic.Int64) (client.Client, <-chan error, error) {
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics:                       server.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              "go-manager",
		LeaderElectionNamespace:       "default",
		LeaderElectionReleaseOnCancel: true,
		Controller:                    controllerOptions(),
	})
	if err != nil {
		return nil, nil, err
	}
	copier := &copier{manager.GetClient(), manager.GetEventRecorder("go-manager"), runs}
	err = ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(copier)
	if err != nil {
		return nil, nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	if !manager.GetCache().WaitForCacheSync(ctx) {
		return nil, nil, fmt.Errorf("the cache has not synced")
	}
	return manager.GetClient(), ended, nil
}

// controllerOptions allows two managers in one process.
func controllerOptions() config.Controller {
	skip := true
	return config.Controller{SkipNameValidation: &skip}
}

// manager runs a controller under leader election, and a second one that takes over.
func manager(ctx context.Context, config *rest.Config) error {
	log.SetLogger(zap.New())
	direct, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	var first, second atomic.Int64
	firstContext, stopFirst := context.WithCancel(ctx)
	defer stopFirst()
	_, firstEnded, err := elected(firstContext, config, &first)
	if err != nil {
		return err
	}

	source := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "source", Labels: map[string]string{"copy": "yes"}},
		Data:       map[string]string{"key": "first"},
	}
	if err := direct.Create(ctx, source); err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(source)
	copied := func(value string) func() bool {
		return func() bool {
			var secret corev1.Secret
			return direct.Get(ctx, key, &secret) == nil && string(secret.Data["key"]) == value
		}
	}
	if err := eventually(ctx, "the Secret is created", copied("first")); err != nil {
		return err
	}
	err = eventually(ctx, "an Event is written", func() bool {
		var list corev1.EventList
		err := direct.List(ctx, &list, client.InNamespace("default"), client.MatchingFields{"reason": "Copied"})
		return err == nil && len(list.Items) > 0 && list.Items[0].InvolvedObject.Name == "source"
	})
	if err != nil {
		return err
	}

	secondContext, stopSecond := context.WithCancel(ctx)
	defer stopSecond()
	cached, secondEnded, err := elected(secondContext, config, &second)
	if err != nil {
		return err
	}
	if second.Load() != 0 {
		return fmt.Errorf("the second manager works while the first one leads")
	}
	stopFirst()
	if err := <-firstEnded; err != nil {
		return err
	}
	if err := eventually(ctx, "the second manager leads", func() bool { return second.Load() > 0 }); err != nil {
		return err
	}
	patched := source.DeepCopy()
	patched.Data["key"] = "second"
	if err := direct.Patch(ctx, patched, client.MergeFrom(source)); err != nil {
		return err
	}
	if err := eventually(ctx, "the Secret follows", copied("second")); err != nil {
		return err
	}
	var found corev1.Secret
	if err := eventually(ctx, "the cache follows", func() bool {
		return cached.Get(ctx, key, &found) == nil && string(found.Data["key"]) == "second"
	}); err != nil {
		return err
	}
	if err := direct.Delete(ctx, source); err != nil {
		return err
	}
	err = eventually(ctx, "the ConfigMap and its Secret are deleted", func() bool {
		var secret corev1.Secret
		return apierrors.IsNotFound(direct.Get(ctx, key, source)) && apierrors.IsNotFound(direct.Get(ctx, key, &secret))
	})
	if err != nil {
		return err
	}
	stopSecond()
	return <-secondEnded
}
