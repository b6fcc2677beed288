// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"slices"

	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// presetAcceptRA sets what interfaces do with router advertisements that arrive before
// setAcceptRA. In a namespace of another runtime, interfaces that others make count on
// the setting as it is.
func (o *operation) presetAcceptRA(ns kernel.Namespace, p *plan.Plan) error {
	if !o.record.Allocation.NetnsOwned {
		return nil
	}
	// Only an interface that accepts them when it is set up asks for one.
	accept := slices.ContainsFunc(p.Added, func(a plan.Attachment) bool { return a.Attachment.AcceptRA != nil && *a.Attachment.AcceptRA })
	return ns.SetAcceptRA(netns.NewInterfaces, accept)
}

// setAcceptRA has an attached interface accept router advertisements or ignore them. They would
// give it addresses and a default route beside those of its network's plugins.
func (o *operation) setAcceptRA(ns kernel.Namespace, a *state.Attachment) error {
	if a.AcceptRA == nil {
		return nil
	}
	if err := ns.SetAcceptRA(a.Interface, *a.AcceptRA); err != nil {
		return o.failure("attach", *a, a.Attempts, err)
	}
	return nil
}
