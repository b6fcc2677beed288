// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// notAsked is why Inspect says nothing of what plugins made on the host.
const notAsked = "plugins are not executed"

// errInFlight is that an allocation was changed while it was inspected.
var errInFlight = errors.New("the allocation is being changed")

// Inspect compares the attachments that are attached with the namespace, as Check does,
// without executing plugins or waiting for the allocation's lock. It is for callers that look at
// all allocations of a host, and finds what is wrong inside the namespace only. The error is
// about the allocation as a whole: a *DamageError, or why that cannot be told now.
func (e *Engine) Inspect(_ context.Context, id string) ([]Checked, error) {
	before, err := e.store.Read(id)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(before.Attachments, inFlight) {
		return nil, nil // its phase shows it
	}
	if len(before.Damaged) > 0 {
		return nil, fmt.Errorf("damaged record %s", before.Damaged[0])
	}
	checked, whole := e.inspect(before)
	sound := whole == nil && !slices.ContainsFunc(checked, func(c Checked) bool { return c.Err != nil })
	if sound {
		return checked, nil
	}
	// A change meanwhile may be the cause of what was seen.
	if after, err := e.store.Read(id); err != nil || !reflect.DeepEqual(before, after) {
		return nil, errors.Join(errInFlight, err)
	}
	return checked, whole
}

func inFlight(a state.Attachment) bool { return a.Phase == state.Adding || a.Phase == state.Deleting }

// inspect compares a record with its namespace.
func (e *Engine) inspect(r state.Record) ([]Checked, error) {
	o := e.on(r)
	defer o.opened.close()
	ns, err := o.namespace()
	if errors.Is(err, netns.ErrMissing) {
		return nil, inspect.Damaged("%v", err)
	}
	if err != nil {
		return nil, err
	}
	defer ns.Close() //nolint:errcheck // read only
	interfaces, err := ns.Interfaces()
	if err != nil {
		return nil, err
	}
	routes, err := ns.DefaultRoutes()
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
		if moved := inspect.Moved(r, e.config.Host, a, interfaces); err != nil && moved != nil {
			c.Skipped, err = moved.Error(), nil
		}
		o.setOutcome(&c, a, err)
		checked = append(checked, c)
	}
	return checked, inspect.Namespace(r, interfaces, routes)
}
