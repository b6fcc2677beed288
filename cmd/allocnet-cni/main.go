// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Command allocnet-cni is a CNI plugin that attaches a container to several
// networks: those that the host's configuration names, and those that the job
// names. Nomad, or any other CNI runtime, executes it; it needs no daemon.
package main

import (
	"fmt"
	"os"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/allocnet/allocnet/internal/searchpath"
	own "github.com/allocnet/allocnet/internal/version"
)

// name is the plugin's type.
const name = "allocnet-cni"

// about is what a call without arguments prints: Nomad reads the version.
const about = "CNI " + name + " plugin v" + own.Version

func main() {
	if err := searchpath.CompleteOwn(); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "%s: PATH: %v\n", name, err)
	}
	if len(os.Args) == 2 && os.Args[1] == retryArgument {
		os.Exit(retryPending())
	}
	funcs := skel.CNIFuncs{Add: call(add, true), Check: check, Del: call(del, false), GC: call(gc, true), Status: call(status, true)}
	supported := version.VersionsStartingFrom("0.3.0")
	if err := skel.PluginMainFuncsWithError(funcs, supported, about); err != nil {
		if failed := err.Print(); failed != nil {
			_, _ = os.Stderr.WriteString(failed.Error()) // nobody else to tell
		}
		os.Exit(1)
	}
}

// call turns a verb into what skel wants: what it returns is always a CNI
// error object. A strict verb needs a plugin configuration without mistakes.
func call(verb func(*request) error, strict bool) func(*skel.CmdArgs) error {
	return func(args *skel.CmdArgs) error {
		r, err := newRequest(args, strict)
		if err != nil {
			return cniError(err)
		}
		defer r.close()
		if err := r.carryOut(verb); err != nil {
			return r.outcome(err)
		}
		r.retryLater()
		return nil
	}
}

// outcome is what skel wants: nil, or a CNI error object.
func (r *request) outcome(err error) error {
	if err == nil {
		return nil
	}
	failed := cniError(err)
	r.log.Error("failed", "code", failed.Code, "error", failed.Msg)
	return failed
}

// refuse makes the error of a call that cannot be done as it was asked for.
func refuse(code uint, msg string) error { return types.NewError(code, msg, "") }
