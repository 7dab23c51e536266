package main

import (
	"context"
	"fmt"
	"net/http"
)

// clientGoWatch counts the events that the informer's handler saw.
func clientGoWatch(a ask) (outcome, error) { return watchWith(a, startInformer) }

// controllerRuntimeWatch counts the events that the controller's predicate saw; reconciles of one object that wait for
// each other are folded into one, so they cannot be counted.
func controllerRuntimeWatch(a ask) (outcome, error) { return watchWith(a, startManager) }

// watchWith measures the events alone: they start when every object has been handled.
func watchWith(a ask, start func(context.Context, ask) (*progress, error)) (outcome, error) {
	p, err := start(context.Background(), a)
	if err != nil {
		return outcome{}, err
	}
	if err := p.wait(&p.handled); err != nil {
		return outcome{}, err
	}
	stopwatch := startStopwatch()
	if err := startEvents(a.url, a.events); err != nil {
		return outcome{}, err
	}
	if err := p.wait(&p.updates); err != nil {
		return outcome{}, err
	}
	spent := stopwatch.cost()
	count := p.updates.value.Load()
	rate := float64(count) / spent.wall.Seconds()
	return outcome{count: count, cost: spent, figures: map[string]float64{"events_per_s": rate}, keep: p}, nil
}

// startEvents has the replay send its events up to this one, counted from 1.
func startEvents(url string, last int) error {
	response, err := http.Post(fmt.Sprintf("%s/replay/start-events?events=%d", url, last), "", nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the replay did not start its events: %s", response.Status)
	}
	return nil
}
