// The contestants written in Go: client-go and controller-runtime.
//
//	go-contestants CONTESTANT JOB --size N [--url URL] [--events M] [--workers W] [--window S] [--kubeconfig FILE] [--started NANOSECONDS]
//
// One file holds one job (or jobs that share their loop). What is asked for and what is printed is the protocol in
// ../README.md.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
)

// jobs says who can do what.
var jobs = map[string]map[string]func(ask) (outcome, error){
	"client-go": {
		"sync":                clientGoSync,
		"watch":               clientGoWatch,
		"cache-sync":          clientGoCacheSync,
		"cache-watch":         clientGoCacheWatch,
		"cache-handlers":      clientGoHandlers,
		"cache-read-all":      clientGoReadAll,
		"cache-read-children": clientGoReadChildren,
		"cache-index":         clientGoIndex,
		"clients-get":         clientGoGets,
		"workqueue-together":  workqueueTogether,
		"workqueue-queued":    workqueueQueued,
		"workqueue-dedup":     workqueueDedup,
		"workqueue-delay":     workqueueDelay,
		"workqueue-ratelimit": workqueueRateLimit,
	},
	"controller-runtime": {
		"sync":               controllerRuntimeSync,
		"watch":              controllerRuntimeWatch,
		"latency":            controllerRuntimeLatency,
		"reconcile":          controllerRuntimeSync,
		"reconcile-noop":     controllerRuntimeNoop,
		"idle":               controllerRuntimeIdle,
		"start":              controllerRuntimeStart,
		"workqueue-priority": workqueuePriority,
	},
}

// ask is the job that a contestant is asked to do.
type ask struct {
	size       int
	url        string
	events     int
	workers    int
	window     time.Duration
	kubeconfig string
	// started is when this program was started, in nanoseconds since 1970.
	started int64
}

func main() {
	go exitWhenStdinCloses()
	// Both libraries want a logger; what they log is no part of a job.
	ctrl.SetLogger(logr.Discard())
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("usage: CONTESTANT JOB --size N […]")
	}
	contestant, name := args[0], args[1]
	job, known := jobs[contestant][name]
	if !known {
		return fmt.Errorf("no contestant %q that can do the job %q", contestant, name)
	}
	var a ask
	var window int
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.IntVar(&a.size, "size", 0, "how many objects or keys the job is about")
	flags.StringVar(&a.url, "url", "", "the replay's address")
	flags.IntVar(&a.events, "events", 0, "how many watch events follow the first list")
	flags.IntVar(&a.workers, "workers", 1, "how many workers take from the queue, or how many handlers an informer has")
	flags.IntVar(&window, "window", 0, "seconds over which delays are spread, or for which is measured")
	flags.StringVar(&a.kubeconfig, "kubeconfig", "", "how to reach a real API server")
	flags.Int64Var(&a.started, "started", 0, "when this program was started, in nanoseconds since 1970")
	if err := flags.Parse(args[2:]); err != nil {
		return err
	}
	if a.size < 1 {
		return fmt.Errorf("--size must be at least 1")
	}
	a.window = time.Duration(window) * time.Second
	result, err := job(a)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", contestant, name, err)
	}
	return result.report()
}

// exitWhenStdinCloses ends this process once standard input is closed, so that it never outlives who started it.
func exitWhenStdinCloses() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(3)
}

// config says how to reach the replay, or a real server. The client's own limit on requests is lifted: it would be
// what is measured.
func (a ask) config() (*rest.Config, error) {
	config := &rest.Config{Host: a.url}
	if a.kubeconfig != "" {
		var err error
		if config, err = clientcmd.BuildConfigFromFlags("", a.kubeconfig); err != nil {
			return nil, err
		}
	} else if a.url == "" {
		return nil, fmt.Errorf("needs --url or --kubeconfig")
	}
	config.QPS, config.Burst = 10_000, 10_000
	return config, nil
}
