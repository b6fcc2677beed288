// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package step

import (
	"context"
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// acceptRA has an attached interface accept IPv6 router advertisements or ignore them. They would give it addresses and a default
// route beside those of its network's plugins.
var acceptRA = step{Prepared: presetAcceptRA, Added: setAcceptRA, Lacks: lackingAcceptRA}

// presetAcceptRA sets what interfaces do with router advertisements that arrive before
// setAcceptRA. In a namespace of another runtime, interfaces that others make count on
// the setting as it is.
func presetAcceptRA(w *Work, added []state.Attachment) error {
	if !w.Record.Allocation.NetnsOwned {
		return nil
	}
	ns, err := w.Namespace()
	if err != nil {
		return err
	}
	// Only an interface that accepts them when it is set up asks for one.
	accept := slices.ContainsFunc(added, func(a state.Attachment) bool { return a.AcceptRA != nil && *a.AcceptRA })
	return ns.SetAcceptRA(netns.NewInterfaces, accept)
}

func setAcceptRA(w *Work, a *state.Attachment) error {
	if a.AcceptRA == nil {
		return nil
	}
	ns, err := w.Namespace()
	if err != nil {
		return err
	}
	return ns.SetAcceptRA(a.Interface, *a.AcceptRA)
}

// lackingAcceptRA looks at what the interface does with them, not at what they gave it.
func lackingAcceptRA(_ context.Context, w *Work, a state.Attachment) ([]Lack, error) {
	if a.AcceptRA == nil {
		return nil, nil
	}
	ns, err := w.Namespace()
	if err != nil {
		return nil, err
	}
	is, err := ns.AcceptsRA(a.Interface, *a.AcceptRA)
	if err != nil || is {
		return nil, err
	}
	what := fmt.Sprintf("%s has to ignore IPv6 router advertisements", a.Interface)
	if *a.AcceptRA {
		what = fmt.Sprintf("%s has to accept IPv6 router advertisements", a.Interface)
	}
	return []Lack{{what, func() error { return ns.RestoreAcceptRA(a.Interface, *a.AcceptRA) }}}, nil
}
