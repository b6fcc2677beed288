// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Command allocnet-cni-engine carries out calls of CNI runtimes in its own process, with package
// cniplugin. allocnet-cni becomes it where the agent does not carry out a call. It links little else than
// the engine, since it starts for each of these calls.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cniplugin"
	"github.com/allocnet/allocnet/cniplugin/shim"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/detached"
	"github.com/allocnet/allocnet/internal/memfile"
	"github.com/allocnet/allocnet/internal/searchpath"
	"github.com/allocnet/allocnet/internal/texts"
)

// retryArgument has the program retry pending teardowns, with the plugin configuration on its
// standard input.
const retryArgument = "retry-pending"

// announceArgument has the program announce addresses some times more.
const announceArgument = "announce"

func main() { os.Exit(run()) }

// garbage is how much of its memory the process lets lie, in percent of what it uses: it ends after one call, and to look for garbage in thousands of rules takes
// longer than that call needs for them.
const garbage = 400

func run() (code int) {
	debug.SetGCPercent(garbage)
	if err := searchpath.CompleteOwn(); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "%s: PATH: %v\n", cniplugin.Name, err)
	}
	ctx, ignore := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer ignore()
	call := cniplugin.Call{
		Getenv: os.Getenv, Config: os.Stdin, Log: os.Stderr, Refusal: refusal(os.Args[1:]),
		Later: retry, AnnounceAgain: announceAgain,
	}
	if len(os.Args) > 1 && os.Args[1] == announceArgument {
		if hook.AnnounceAgain(ctx, os.Args[2:]) != nil {
			return 1
		}
		return 0
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

// refusal is why the agent has not carried out the call, as allocnet-cni says.
func refusal(arguments []string) *shim.Refusal {
	r := &shim.Refusal{Reason: "it was not asked"}
	if len(arguments) == 2 && arguments[0] == shim.Instead {
		if err := json.Unmarshal([]byte(arguments[1]), r); err != nil {
			r.Reason, r.Begun = err.Error(), true
		}
	}
	return r
}

func announceAgain(netns, iface string, addresses []netip.Addr) {
	_ = detached.Start(nil, append([]string{announceArgument, netns, iface}, texts.Of(addresses)...)...) // they are announced once
}

func retry(config []byte) error {
	stdin, err := memfile.New(config)
	if err != nil {
		return err
	}
	defer stdin.Close() //nolint:errcheck // the process has its own
	return detached.Start(stdin, retryArgument)
}
