// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Command allocnet-cni is a CNI plugin that attaches a container to several networks: those of the
// host's configuration, and those that the job selects. Nomad, or any other CNI runtime, executes
// it. It needs no daemon: it runs the engine within the runtime's call, and links little else,
// since it is executed for each call.
//
// The author of a job can set CNI_ARGS. The plugin reads only the keys of its own from them, and
// forwards only arguments that Nomad itself sets or that hold within a job's group. What the agent
// has read from Nomad comes in args.cni, which no job can write.
//
// DEL has no arguments, and may have no namespace, or another conflist than ADD. It uses the
// record, and never requires the agent, because Nomad calls it once. The owner of a record is the
// conflist's name and the interface, so that a DEL or GC for another attachment of the container
// changes nothing. A second ADD for a live namespace is an error. After a failed CHECK or a reboot
// the namespace is another one, and ADD first tears down the earlier attachments.
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
