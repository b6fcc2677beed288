// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Command allocnet-cni is the CNI plugin of package cniplugin. Nomad, or any other CNI runtime, executes
// it. It links little else than the engine, since it is executed for each call.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cniplugin"
	"github.com/allocnet/allocnet/internal/detached"
	"github.com/allocnet/allocnet/internal/searchpath"
)

// retryArgument has the program retry pending teardowns, with the plugin configuration on its
// standard input.
const retryArgument = "retry-pending"

func main() { os.Exit(run()) }

func run() (code int) {
	if err := searchpath.CompleteOwn(); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "%s: PATH: %v\n", cniplugin.Name, err)
	}
	ctx, ignore := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer ignore()
	call := cniplugin.Call{
		Getenv: os.Getenv, Config: os.Stdin, Log: os.Stderr, Delegate: true,
		Later: func(config []byte) error { return detached.Start(config, retryArgument) },
	}
	if len(os.Args) == 2 && os.Args[1] == retryArgument {
		if call.RetryPending(ctx) != nil {
			return 1
		}
		return 0
	}
	printed, failed := call.Run(ctx)
	var err error
	if failed != nil {
		code, err = 1, failed.Print()
	} else {
		_, err = os.Stdout.Write(printed)
	}
	if err != nil {
		_, _ = os.Stderr.WriteString(err.Error()) // no other output is left
		return 1
	}
	return code
}
