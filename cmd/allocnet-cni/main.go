// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Command allocnet-cni is a CNI plugin that attaches a container to several
// networks: those of the host's configuration, and those that the job selects.
// Nomad, or any other CNI runtime, executes it. It needs no daemon.
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

// about is the output of a call without CNI_COMMAND. Nomad reads the version from
// it.
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
			_, _ = os.Stderr.WriteString(failed.Error()) // no other output is left
		}
		os.Exit(1)
	}
}

// call returns a verb as skel's function, whose error is always a CNI error object.
// A strict verb requires a plugin configuration without mistakes.
func call(verb func(*request) error, strict bool) func(*skel.CmdArgs) error {
	return func(args *skel.CmdArgs) error {
		r, err := newRequest(args, strict)
		if err != nil {
			return cniError(err)
		}
		defer r.close()
		if err := r.dispatch(verb); err != nil {
			return r.outcome(err)
		}
		r.retryLater()
		return nil
	}
}

// outcome logs an error and returns it as a CNI error object.
func (r *request) outcome(err error) error {
	if err == nil {
		return nil
	}
	failed := cniError(err)
	r.log.Error("failed", "code", failed.Code, "error", failed.Msg)
	return failed
}

// refuse returns the error of an invalid request.
func refuse(code uint, msg string) error { return types.NewError(code, msg, "") }
