package main

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/cache"
)

// clientGoCacheSync fills the cache of a shared informer whose handler counts what it is told of.
func clientGoCacheSync(a ask) (outcome, error) { return syncWith(a, startCounting) }

// clientGoCacheWatch counts the events that such a handler is told of.
func clientGoCacheWatch(a ask) (outcome, error) { return watchWith(a, startCounting) }

// startCounting starts a shared informer for Pods with one handler that counts.
func startCounting(ctx context.Context, a ask) (*progress, error) {
	factory, err := podInformers(a)
	if err != nil {
		return nil, err
	}
	p := newProgress(a)
	informer := factory.Core().V1().Pods().Informer()
	if _, err := informer.AddEventHandler(p.counting()); err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	p.keep = informer
	return p, nil
}

// counting is a handler that counts the objects and the updates that it is told of.
func (p *progress) counting() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { p.handled.add() },
		UpdateFunc: func(any, any) { p.updates.add() },
	}
}

// clientGoHandlers gives one informer half of the events while it has one handler, and the other half while it has
// several.
func clientGoHandlers(a ask) (outcome, error) {
	factory, err := podInformers(a)
	if err != nil {
		return outcome{}, err
	}
	informer := factory.Core().V1().Pods().Informer()
	half := a.events / 2
	stretch := func(handlers, last int) (cost, int64, error) {
		told := make([]*progress, handlers)
		for i := range told {
			told[i] = newProgress(ask{size: a.size, events: half})
			registration, err := informer.AddEventHandler(told[i].counting())
			if err != nil {
				return cost{}, 0, err
			}
			defer func() { _ = informer.RemoveEventHandler(registration) }()
		}
		factory.Start(context.Background().Done())
		for _, p := range told {
			<-p.handled.reached
		}
		stopwatch := startStopwatch()
		if err := startEvents(a.url, last); err != nil {
			return cost{}, 0, err
		}
		for _, p := range told {
			<-p.updates.reached
		}
		spent := stopwatch.cost()
		var calls int64
		for _, p := range told {
			calls += p.updates.value.Load()
		}
		return spent, calls, nil
	}
	one, callsOfOne, err := stretch(1, half)
	if err != nil {
		return outcome{}, err
	}
	several, callsOfSeveral, err := stretch(a.workers, 2*half)
	if err != nil {
		return outcome{}, err
	}
	if one.cpu <= 0 {
		return outcome{}, fmt.Errorf("no processor time was measured")
	}
	figures := map[string]float64{
		"one_cpu_s":    one.cpu.Seconds(),
		"times_of_one": several.cpu.Seconds() / one.cpu.Seconds(),
	}
	return outcome{count: callsOfOne + callsOfSeveral, cost: several, figures: figures, keep: informer}, nil
}
