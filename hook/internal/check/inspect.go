// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package check

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// notAsked is why Inspect says nothing of what plugins made on the host.
const notAsked = "plugins are not executed"

// errInFlight is that an allocation was changed while it was inspected.
var errInFlight = errors.New("the allocation is being changed")

// Inspect is Engine.Inspect.
func Inspect(e *operation.Env, id string) ([]Checked, error) {
	before, err := e.Store.Read(id)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(before.Attachments, onrecord.IsInFlight) {
		return nil, nil // its phase shows it
	}
	if len(before.Damaged) > 0 {
		return nil, fmt.Errorf("damaged record %s", before.Damaged[0])
	}
	checked, whole := compare(e, before)
	sound := whole == nil && !slices.ContainsFunc(checked, func(c Checked) bool { return c.Err != nil })
	if sound {
		return checked, nil
	}
	// A change meanwhile may be the cause of what was seen.
	if after, err := e.Store.Read(id); err != nil || !reflect.DeepEqual(before, after) {
		return nil, errors.Join(errInFlight, err)
	}
	return checked, whole
}

func compare(e *operation.Env, r state.Record) ([]Checked, error) {
	o := e.On(r)
	defer o.CloseNamespace()
	ns, err := o.Namespace()
	if errors.Is(err, netns.ErrMissing) {
		return nil, inspect.Damaged("%v", err)
	}
	if err != nil {
		return nil, err
	}
	interfaces, routes, err := kernel.Look(ns)
	if err != nil {
		return nil, err
	}
	var checked []Checked
	for _, a := range r.Attachments {
		if a.Phase != state.Attached {
			continue
		}
		c := Checked{Network: a.Network, Interface: a.Interface, Skipped: notAsked}
		err := inspect.Attachment(ns, a, interfaces, routes)
		if moved := inspect.Moved(r, e.Config.Host, a, interfaces); err != nil && moved != nil {
			c.Skipped, err = moved.Error(), nil
		}
		setOutcome(o, &c, a, err)
		checked = append(checked, c)
	}
	return checked, inspect.Namespace(r, interfaces, routes)
}

// What an attachment in the phase Missing lacks.
const (
	namespaceGone = "namespace gone"
	interfaceGone = "interface gone"
)

// Current is Engine.Current.
func Current(e *operation.Env, a *allocation.Allocation) *allocation.Allocation {
	before, err := e.Store.Read(a.ID)
	if err != nil || e.Config.Host.Outside() != nil || !slices.ContainsFunc(before.Attachments, onrecord.IsComplete) {
		return a
	}
	gone := missing(e, before)
	if len(gone) == 0 {
		return a
	}
	if after, err := e.Store.Read(a.ID); err != nil || !reflect.DeepEqual(before, after) { // a change may be the cause
		return a
	}
	now := *a
	now.Attachments = slices.Clone(a.Attachments)
	for i := range now.Attachments {
		n := &now.Attachments[i]
		if what := gone[n.Interface]; what != "" && n.Phase == state.Attached {
			n.Phase, n.Missing = allocation.Missing, what
		}
	}
	return &now
}

// missing returns what is gone of the attachments on record that are complete, by their interfaces.
func missing(e *operation.Env, r state.Record) map[string]string {
	var present []netns.Interface
	ns, err := e.Config.OpenNamespace(r.Allocation)
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
		if what == namespaceGone || err != nil || onrecord.HasInterface(a, seen) && inspect.Moved(r, e.Config.Host, a, present) == nil {
			gone[a.Interface] = what
		}
	}
	return gone
}
