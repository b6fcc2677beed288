// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"

	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/internal/cniexec"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/resolvconf"
	"github.com/allocnet/allocnet/state"
)

// compareNamespace tells whether the namespace on record still exists, and whether it is
// the one at path; an empty path is the engine's own.
func (o *operation) compareNamespace(path string) (alive, same bool, err error) {
	recorded, err := o.namespace()
	if errors.Is(err, netns.ErrMissing) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	defer recorded.Close() //nolint:errcheck // read only
	if path == "" {
		return true, o.record.Allocation.NetnsOwned, nil
	}
	requested, err := o.config.Namespaces.Open(path)
	if err != nil {
		return true, false, err
	}
	defer requested.Close() //nolint:errcheck // read only
	return true, requested.ID() == recorded.ID(), nil
}

// resolvConf is the resolv.conf of a namespace that Setup makes.
func (c Config) resolvConf(id string) resolvconf.File {
	return resolvconf.File{Dir: c.ResolvConfDir, Name: id, Intercept: c.changeFile}
}

// allocation returns the record of a request's allocation, without the identity of its
// namespace.
func (c Config) allocation(r Request, mode state.Mode, digest string) (state.Allocation, error) {
	boot, err := state.BootID()
	a := state.Allocation{ID: r.ID, Mode: mode, Identity: r.Identity, Owner: r.Owner, Netns: r.Netns, Digest: digest, BootID: boot, Created: time.Now().UTC()}
	if r.Netns == "" {
		a.Netns, a.NetnsOwned = filepath.Join(c.NetnsDir, r.ID), true
		a.ResolvConf = c.resolvConf(r.ID).Path()
	}
	return a, err
}

// sandbox opens the namespace of a new allocation, or makes it.
func (o *operation) sandbox(a state.Allocation) (kernel.Namespace, error) {
	if a.NetnsOwned {
		return o.makeNamespace(a)
	}
	ns, err := o.config.Namespaces.Open(a.Netns)
	if err != nil {
		return nil, err
	}
	a.NetnsID = ns.ID()
	o.record.Allocation = a
	return ns, nil
}

// makeNamespace makes a namespace, records its identity, and only then pins it: a
// killed process leaves no unrecorded one, and a namespace with another identity at that
// path is another program's.
func (o *operation) makeNamespace(a state.Allocation) (kernel.Namespace, error) {
	other, err := o.config.Namespaces.Open(a.Netns)
	if err == nil {
		_ = other.Close() // only its existence matters
		return nil, fmt.Errorf("allocation %s: %w: %s: remove it or name it with its path", a.ID, netns.ErrExists, a.Netns)
	}
	ns, err := o.config.Namespaces.New()
	if err != nil {
		return nil, err
	}
	a.NetnsID = ns.ID()
	if err := o.pin(ns, a); err != nil {
		_ = ns.Close() // the first error is returned
		return nil, err
	}
	return ns, nil
}

// pin records the new namespace of an allocation, and pins it.
func (o *operation) pin(ns kernel.Namespace, a state.Allocation) error {
	if err := o.lock.Begin(a, nil); err != nil {
		return err
	}
	o.record.Allocation = a
	_, err := ns.Mount(o.config.NetnsDir, a.ID)
	if errors.Is(err, netns.ErrExists) { // another program made it meanwhile
		o.record.Allocation.NetnsOwned = false
	}
	return err
}

// leaveNamespace removes a namespace that Setup made. In that of another runtime it
// restores the default routes. Whose it is may be all that is lost: then it is not done as long as there is one.
func (o *operation) leaveNamespace() error {
	if o.record.Allocation.Mode == state.ModeUnknown {
		if path := filepath.Join(o.config.NetnsDir, o.record.Allocation.ID); o.config.Namespaces.Exists(path) {
			return fmt.Errorf("the damaged record does not say whose %s is: remove it if it is the allocation's, and repeat", path)
		}
	}
	if o.record.Allocation.NetnsOwned {
		return o.removeNamespace()
	}
	return o.restoreAfterRemoval()
}

// restoreAfterRemoval restores the default routes after DEL, also when it failed for some
// attachments: the others are removed.
func (o *operation) restoreAfterRemoval() error {
	if err := o.reload(); err != nil {
		return err
	}
	o.work().Removed()
	return nil
}

// removeNamespace removes the namespace that Setup made, or the file at which it was
// pinned. Another namespace at that path is not removed.
func (o *operation) removeNamespace() error {
	if err := o.work().End(); err != nil {
		return err
	}
	o.opened.close() // so that it ends, and what is at the path now counts
	path, err := o.namespacePath()
	if err != nil {
		return err
	}
	if path == "" && o.config.Namespaces.Exists(o.record.Allocation.Netns) {
		return nil
	}
	o.opened.close()
	return o.config.Namespaces.Remove(o.record.Allocation.Netns)
}

// requirePath requires that the path on record leads to the namespace of the allocation.
func (o *operation) requirePath() error {
	ns, err := o.config.openNamespace(o.record.Allocation)
	if err != nil {
		return err
	}
	return ns.Close()
}

// namespacePath is what libcni gets for DEL: empty when the namespace is missing, as the CNI
// specification allows. A path that is no longer the allocation's namespace would make plugins
// fail, or harm another one.
func (o *operation) namespacePath() (path string, err error) {
	if _, err := o.namespace(); errors.Is(err, netns.ErrMissing) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	return o.record.Allocation.Netns, nil
}

// findNamespace is namespacePath. It also finds a namespace that its path does not lead to any more, and
// that a process keeps: otherwise its interfaces would keep addresses that others get after DEL.
func (o *operation) findNamespace() (path string, err error) {
	path, err = o.namespacePath()
	a := o.record.Allocation
	if path != "" || err != nil || a.NetnsID == "" {
		return path, err
	}
	if past, err := a.IsOfEarlierBoot(); past || err != nil {
		return "", err
	}
	ns, err := o.config.Namespaces.Find(a.NetnsID, a.Created)
	if errors.Is(err, netns.ErrMissing) {
		o.log.Debug("namespace is missing", "error", err)
		return "", nil
	}
	if err == nil {
		o.opened.set(ns, a)
	}
	return a.Netns, err
}

// runner executes the plugins of one chain, for which libcni gets a path: that of the namespace of
// the allocation, or none.
func (o *operation) runner(exec invoke.Exec, path string) (*cniexec.Runner, error) {
	r := &cniexec.Runner{Exec: exec, Limit: o.config.CallTimeout}
	if path == "" {
		return r, nil
	}
	ns, err := o.namespace()
	if err != nil {
		return nil, err
	}
	r.Namespace = cniexec.Namespace{Path: path, Handle: ns.Handle()}
	return r, nil
}
