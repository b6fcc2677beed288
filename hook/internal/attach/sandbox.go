// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package attach

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// compareNamespace tells whether the namespace on record still exists, and whether it is
// the one at path; an empty path is the engine's own.
func compareNamespace(o *operation.Operation, path string) (alive, same bool, err error) {
	recorded, err := o.Namespace()
	if errors.Is(err, netns.ErrMissing) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	if path == "" {
		return true, o.Record.Allocation.NetnsOwned, nil
	}
	requested, err := o.Config.Namespaces.Open(path)
	if err != nil {
		return true, false, err
	}
	defer requested.Close() //nolint:errcheck // read only
	return true, requested.ID() == recorded.ID(), nil
}

// recordOf returns the record of a request's allocation, without the identity of its
// namespace.
func recordOf(c config.Config, r plan.Request, mode state.Mode, digest string) (state.Allocation, error) {
	boot, err := state.BootID()
	a := state.Allocation{ID: r.ID, Mode: mode, Identity: r.Identity, Owner: r.Owner, Netns: r.Netns, Digest: digest, BootID: boot, Created: time.Now().UTC()}
	if r.Netns == "" {
		a.Netns, a.NetnsOwned = filepath.Join(c.NetnsDir, r.ID), true
		a.ResolvConf = c.ResolvConf(r.ID).Path()
	}
	return a, err
}

// sandbox opens the namespace of a new allocation, or makes it.
func sandbox(o *operation.Operation, a state.Allocation) (kernel.Namespace, error) {
	if a.NetnsOwned {
		return makeNamespace(o, a)
	}
	ns, err := o.Config.Namespaces.Open(a.Netns)
	if err != nil {
		return nil, err
	}
	a.NetnsID = ns.ID()
	o.Record.Allocation = a
	return ns, nil
}

// makeNamespace makes a namespace, records its identity, and only then pins it: a
// killed process leaves no unrecorded one, and a namespace with another identity at that
// path is another program's.
func makeNamespace(o *operation.Operation, a state.Allocation) (kernel.Namespace, error) {
	other, err := o.Config.Namespaces.Open(a.Netns)
	if err == nil {
		_ = other.Close() // only its existence matters
		return nil, fmt.Errorf("allocation %s: %w: %s: remove it or name it with its path", a.ID, netns.ErrExists, a.Netns)
	}
	ns, err := o.Config.Namespaces.New()
	if err != nil {
		return nil, err
	}
	a.NetnsID = ns.ID()
	if err := pin(o, ns, a); err != nil {
		_ = ns.Close() // the first error is returned
		return nil, err
	}
	return ns, nil
}

// pin records the new namespace of an allocation, and pins it.
func pin(o *operation.Operation, ns kernel.Namespace, a state.Allocation) error {
	if err := o.Lock.Begin(a, nil); err != nil {
		return err
	}
	o.Record.Allocation = a
	_, err := ns.Mount(o.Config.NetnsDir, a.ID)
	if errors.Is(err, netns.ErrExists) { // another program made it meanwhile
		o.Record.Allocation.NetnsOwned = false
	}
	return err
}
