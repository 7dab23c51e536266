package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

const (
	// podsPerOwner is how many Pods of the replay have the same owner.
	podsPerOwner = 100
	// childLists is how often the children of one owner are listed.
	childLists = 1000
	// ownerStride visits the owners in an order that is neither rising nor falling; a prime, so that none is left out.
	ownerStride = 7919
	ownerIndex  = "owner"
)

// ownerUID is the uid of an owner of Pods of the replay.
func ownerUID(owner int) string {
	return fmt.Sprintf("c0ffee00-5d1c-4b7e-9a30-%012x", owner)
}

// filled is a cache that holds every Pod, indexed by owner.
type filled struct {
	indexer cache.Indexer
	lister  corelisters.PodLister
	// told counts what its handler was told of.
	told *progress
}

func fill(a ask) (*filled, error) {
	factory, err := podInformers(a)
	if err != nil {
		return nil, err
	}
	pods := factory.Core().V1().Pods()
	informer := pods.Informer()
	if err := informer.AddIndexers(cache.Indexers{ownerIndex: byOwner}); err != nil {
		return nil, err
	}
	told := newProgress(a)
	if _, err := informer.AddEventHandler(told.counting()); err != nil {
		return nil, err
	}
	factory.Start(context.Background().Done())
	<-told.handled.reached
	return &filled{informer.GetIndexer(), pods.Lister(), told}, nil
}

func byOwner(object any) ([]string, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("%T is no Pod", object)
	}
	uids := make([]string, 0, len(pod.OwnerReferences))
	for i := range pod.OwnerReferences {
		uids = append(uids, string(pod.OwnerReferences[i].UID))
	}
	return uids, nil
}

// clientGoReadAll lists every Pod and reads a field of each, once.
func clientGoReadAll(a ask) (outcome, error) {
	pods, err := fill(a)
	if err != nil {
		return outcome{}, err
	}
	var count int64
	stopwatch := startStopwatch()
	all, err := pods.lister.List(labels.Everything())
	if err != nil {
		return outcome{}, err
	}
	for _, pod := range all {
		if pod.Spec.NodeName != "" {
			count++
		}
	}
	return reads(count, stopwatch.cost(), pods), nil
}

// clientGoReadChildren lists the Pods of one owner again and again and reads a field of each.
func clientGoReadChildren(a ask) (outcome, error) {
	pods, err := fill(a)
	if err != nil {
		return outcome{}, err
	}
	owner := ownerUID(a.size / podsPerOwner / 2)
	var count int64
	stopwatch := startStopwatch()
	for range childLists {
		children, err := pods.indexer.ByIndex(ownerIndex, owner)
		if err != nil {
			return outcome{}, err
		}
		for _, child := range children {
			if pod, ok := child.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
				count++
			}
		}
	}
	return reads(count, stopwatch.cost(), pods), nil
}

func reads(count int64, spent cost, pods *filled) outcome {
	perRead := float64(spent.wall.Nanoseconds()) / float64(max(count, 1))
	return outcome{count: count, cost: spent, figures: map[string]float64{"ns_per_read": perRead}, keep: pods}
}

// clientGoIndex asks for the Pods of one owner after the other while the replay changes Pods.
func clientGoIndex(a ask) (outcome, error) {
	if a.window <= 0 || a.size < podsPerOwner {
		return outcome{}, fmt.Errorf("needs --window, and Pods of at least one owner")
	}
	pods, err := fill(a)
	if err != nil {
		return outcome{}, err
	}
	owners := make([]string, a.size/podsPerOwner)
	for i := range owners {
		owners[i] = ownerUID(i)
	}
	var hits int64
	var took []time.Duration
	if err := startEvents(a.url, a.events); err != nil {
		return outcome{}, err
	}
	stopwatch := startStopwatch()
	end := stopwatch.started.Add(a.window)
	for last := stopwatch.started; last.Before(end); {
		found, err := pods.indexer.ByIndex(ownerIndex, owners[len(took)*ownerStride%len(owners)])
		if err != nil {
			return outcome{}, err
		}
		for _, object := range found {
			if pod, ok := object.(*corev1.Pod); ok && pod.Name != "" {
				hits++
			}
		}
		now := time.Now()
		took = append(took, now.Sub(last))
		last = now
	}
	spent := stopwatch.cost()
	updates := pods.told.updates.value.Load()
	slices.Sort(took)
	figures := map[string]float64{
		"lookups":       float64(len(took)),
		"updates":       float64(updates),
		"updates_per_s": float64(updates) / spent.wall.Seconds(),
		"us_per_lookup": spent.wall.Seconds() * 1e6 / float64(len(took)),
		"p50_us":        took[len(took)/2].Seconds() * 1e6,
		"p99_us":        took[len(took)*99/100].Seconds() * 1e6,
	}
	return outcome{count: hits, cost: spent, figures: figures, keep: pods}, nil
}
