// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/state"
)

var phases = []string{string(state.Adding), string(state.Attached), string(hook.Reattaching), string(state.Deleting), string(state.Pending), string(hook.Missing)}

// filter selects attachments; an empty field selects all.
type filter struct{ network, job, namespace, phase string }

func (f *filter) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.network, "network", "", "only attachments to this network (default: all)")
	flags.StringVar(&f.phase, "phase", "", "only attachments in this phase: "+strings.Join(phases, ", ")+" (default: all)")
	flags.StringVar(&f.job, "job", "", "only allocations of this Nomad job (default: all)")
	flags.StringVar(&f.namespace, "namespace", "", "only allocations of this Nomad namespace (default: all)")
}

func (f *filter) validate() error {
	if f.phase != "" && !slices.Contains(phases, f.phase) {
		return cli.Usage(fmt.Errorf("--phase %q: want %s", f.phase, strings.Join(phases, ", ")))
	}
	return nil
}

// selected returns an allocation with the attachments that are selected; nil for one
// without any.
func (f *filter) selected(a *hook.Allocation) *hook.Allocation {
	if f.job != "" && a.Identity.Job != f.job || f.namespace != "" && a.Identity.Namespace != f.namespace {
		return nil
	}
	if f.network == "" && f.phase == "" {
		return a
	}
	part := *a
	part.Attachments = slices.DeleteFunc(slices.Clone(a.Attachments), func(n hook.Attachment) bool {
		return f.network != "" && n.Network != f.network || f.phase != "" && string(n.Phase) != f.phase
	})
	if len(part.Attachments) == 0 {
		return nil
	}
	return &part
}
