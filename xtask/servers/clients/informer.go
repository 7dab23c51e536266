package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
)

const namespace = "go-informer"

// calls holds what a handler was called with.
type calls struct {
	mutex sync.Mutex
	seen  []string
}

func (e *calls) add(what string, object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.seen = append(e.seen, what+" "+object.(metav1.Object).GetName())
}

func (e *calls) has(what string) bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return slices.Contains(e.seen, what)
}

func (e *calls) handler() cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { e.add("add", object) },
		UpdateFunc: func(_, object any) { e.add("update", object) },
		DeleteFunc: func(object any) { e.add("delete", object) },
	}
}

// informer writes with a typed client and waits until shared informers, typed and of metadata, have seen it.
func informer(ctx context.Context, config *rest.Config) error {
	config = rest.CopyConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{}); err != nil {
		return err
	}

	stop := make(chan struct{})
	defer close(stop)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	maps, deployments := factory.Core().V1().ConfigMaps(), factory.Apps().V1().Deployments()
	var seen, partial calls
	if _, err := maps.Informer().AddEventHandler(seen.handler()); err != nil {
		return err
	}
	deployments.Informer()
	factory.Start(stop)
	partials := metadatainformer.NewFilteredSharedInformerFactory(metadataClient, 0, namespace, nil)
	if _, err := partials.ForResource(corev1.SchemeGroupVersion.WithResource("configmaps")).Informer().AddEventHandler(partial.handler()); err != nil {
		return err
	}
	partials.Start(stop)
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("the informer of %v has not synced", kind)
		}
	}
	partials.WaitForCacheSync(ctx.Done())

	if err := writeMaps(ctx, client); err != nil {
		return err
	}
	for _, expected := range []string{"add one", "update one", "delete one"} {
		for name, calls := range map[string]*calls{"typed": &seen, "metadata": &partial} {
			what := fmt.Sprintf("the %s informer sees %q", name, expected)
			if err := eventually(ctx, what, func() bool { return calls.has(expected) }); err != nil {
				return err
			}
		}
	}
	if err := writeDeployment(ctx, client); err != nil {
		return err
	}
	err = eventually(ctx, "the lister has the status", func() bool {
		found, err := deployments.Lister().Deployments(namespace).List(labels.SelectorFromSet(labels.Set{"app": "web"}))
		return err == nil && len(found) == 1 && found[0].Status.Replicas == 2 && *found[0].Spec.Replicas == 5
	})
	if err != nil {
		return err
	}
	background := metav1.DeletePropagationBackground
	if err := client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		return err
	}
	return eventually(ctx, "the namespace is deleted", func() bool {
		_, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err) && len(maps.Informer().GetStore().List()) == 0
	})
}

// writeMaps creates, changes and deletes a ConfigMap, with a conflict and a refusal in between.
func writeMaps(ctx context.Context, client kubernetes.Interface) error {
	maps := client.CoreV1().ConfigMaps(namespace)
	one := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "one", Labels: map[string]string{"app": "web"}},
		Data:       map[string]string{"key": "first"},
		BinaryData: map[string][]byte{"bytes": {0, 255}},
	}
	first, err := maps.Create(ctx, one, metav1.CreateOptions{FieldManager: "go-clients", FieldValidation: "Strict"})
	if err != nil {
		return err
	}
	if _, err := maps.Create(ctx, one, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("a second create: %v", err)
	}
	changed := first.DeepCopy()
	changed.Data["key"] = "second"
	if _, err := maps.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if _, err := maps.Update(ctx, changed, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return fmt.Errorf("an update of an old version: %v", err)
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current, err := maps.Get(ctx, "one", metav1.GetOptions{})
		if err != nil {
			return err
		}
		current.Data["more"] = "x"
		_, err = maps.Update(ctx, current, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	if err != nil {
		return err
	}
	patched, err := maps.Patch(ctx, "one", types.MergePatchType, []byte(`{"data":{"key":null,"patched":"yes"}}`), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	if patched.Data["patched"] != "yes" || patched.Data["key"] != "" || patched.Data["more"] != "" {
		return fmt.Errorf("the patch made %v", patched.Data)
	}
	listed, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "app=web", Limit: 1})
	if err != nil {
		return err
	}
	if len(listed.Items) != 1 || string(listed.Items[0].BinaryData["bytes"]) != "\x00\xff" {
		return fmt.Errorf("the list has %v", listed.Items)
	}
	wrong := types.UID("other")
	err = maps.Delete(ctx, "one", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}})
	if !apierrors.IsConflict(err) {
		return fmt.Errorf("a deletion of another uid: %v", err)
	}
	if err := maps.Delete(ctx, "one", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &first.UID}}); err != nil {
		return err
	}
	two := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "two-"}}
	if _, err := maps.Create(ctx, two, metav1.CreateOptions{}); err != nil {
		return err
	}
	return maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app!=web"})
}

// writeDeployment changes a Deployment by its scale and by its status.
func writeDeployment(ctx context.Context, client kubernetes.Interface) error {
	app := map[string]string{"app": "web"}
	deployments := client.AppsV1().Deployments(namespace)
	created, err := deployments.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: app},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if created.Spec.Strategy.RollingUpdate == nil || *created.Spec.Replicas != 1 {
		return errors.New("the Deployment has no defaults")
	}
	scale, err := deployments.GetScale(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	scale.Spec.Replicas = 5
	if _, err := deployments.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{}); err != nil {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		current.Status.Replicas = 2
		_, err = deployments.UpdateStatus(ctx, current, metav1.UpdateOptions{})
		return err
	})
}
