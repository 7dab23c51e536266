// Command go-clients runs client-go and controller-runtime as programs use them, against the server of KUBECONFIG. Each
// scenario ends with status 0 when everything happened that the clients rely on, and prints what did not otherwise.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// How long a scenario may take.
const patience = 90 * time.Second

var scenarios = map[string]func(context.Context, *rest.Config) error{
	"informer":   informer,
	"definition": definition,
	"manager":    manager,
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 || scenarios[os.Args[1]] == nil {
		return fmt.Errorf("usage: go-clients informer|definition|manager")
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 1000, 1000
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return scenarios[os.Args[1]](ctx, config)
}

// eventually waits until a condition holds.
func eventually(ctx context.Context, what string, holds func() bool) error {
	for !holds() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %v", what, patience)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}
