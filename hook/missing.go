// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"reflect"
	"slices"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// Missing is the phase of an attachment that is attached on record, and whose namespace or interface is
// gone. No record has it.
const Missing = allocation.Missing

// What an attachment in the phase Missing lacks.
const (
	namespaceGone = "namespace gone"
	interfaceGone = "interface gone"
)

// Current returns an allocation as it is now: what its attachments lack is looked for in the namespace. It
// runs no plugin and waits for no lock. Where it cannot be told, as without root or in a container, the
// allocation is as it was recorded.
func (e *Engine) Current(a *Allocation) *Allocation {
	before, err := e.store.Read(a.ID)
	if err != nil || e.config.Host.Outside() != nil || !slices.ContainsFunc(before.Attachments, onrecord.IsComplete) {
		return a
	}
	gone := e.missing(before)
	if len(gone) == 0 {
		return a
	}
	if after, err := e.store.Read(a.ID); err != nil || !reflect.DeepEqual(before, after) { // a change may be the cause
		return a
	}
	now := *a
	now.Attachments = slices.Clone(a.Attachments)
	for i := range now.Attachments {
		n := &now.Attachments[i]
		if what := gone[n.Interface]; what != "" && n.Phase == state.Attached {
			n.Phase, n.Missing = Missing, what
		}
	}
	return &now
}

// missing returns what is gone of the attachments on record that are complete, by their interfaces.
func (e *Engine) missing(r state.Record) map[string]string {
	var present []netns.Interface
	ns, err := e.config.openNamespace(r.Allocation)
	what := namespaceGone
	if err == nil {
		defer ns.Close() //nolint:errcheck // read only
		present, err = ns.Interfaces()
		what = interfaceGone
	}
	if err != nil && !errors.Is(err, netns.ErrMissing) {
		return nil
	}
	gone := map[string]string{}
	for _, a := range r.Attachments {
		if !onrecord.IsComplete(a) || netns.Index(present, a.Interface) >= 0 {
			continue
		}
		seen, err := onrecord.ReadStatus(a)
		if what == namespaceGone || err != nil || onrecord.HasInterface(a, seen) && inspect.Moved(r, e.config.Host, a, present) == nil {
			gone[a.Interface] = what
		}
	}
	return gone
}
