package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const clientsName = "steersman-bench-clients"

// clientGoGets reads one ConfigMap again and again, one read after the other.
func clientGoGets(a ask) (outcome, error) {
	ctx := context.Background()
	config, err := a.config()
	if err != nil {
		return outcome{}, err
	}
	config.QPS = -1 // No limit: the others have none.
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return outcome{}, err
	}
	maps := clientset.CoreV1().ConfigMaps(latencyNamespace)
	_ = maps.Delete(ctx, clientsName, metav1.DeleteOptions{}) // Left by a run that was interrupted.
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: clientsName},
		Data:       map[string]string{"key": "value"},
	}
	if _, err = maps.Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return outcome{}, err
	}
	defer func() { _ = maps.Delete(ctx, clientsName, metav1.DeleteOptions{}) }()

	var count int64
	stopwatch := startStopwatch()
	for range a.size {
		object, err := maps.Get(ctx, clientsName, metav1.GetOptions{})
		if err != nil {
			return outcome{}, err
		}
		if object.Data["key"] != "value" {
			return outcome{}, fmt.Errorf("read %v", object.Data)
		}
		count++
	}
	return outcome{count: count, cost: stopwatch.cost()}, nil
}
