// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package operation

import (
	"errors"
	"sync"

	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// Namespace returns the namespace of the allocation. An operation opens it once, because its
// path may lead to another one meanwhile.
func (o *Operation) Namespace() (kernel.Namespace, error) {
	a := o.Record.Allocation
	o.opened.mu.Lock()
	defer o.opened.mu.Unlock()
	if o.opened.of(a) {
		return &o.opened, nil
	}
	ns, err := o.Config.OpenNamespace(a)
	if err != nil {
		return nil, err
	}
	return o.opened.set(ns, a), nil
}

// CloseNamespace closes it.
func (o *Operation) CloseNamespace() { o.opened.close() }

// openedNamespace is the namespace that an operation has opened.
type openedNamespace struct {
	kernel.Namespace
	mu   sync.Mutex
	path string
}

// of tells whether it is that of an allocation, which may have been set up anew.
func (n *openedNamespace) of(a state.Allocation) bool {
	return n.Namespace != nil && n.path == a.Netns && (a.NetnsID == "" || a.NetnsID == n.ID())
}

func (n *openedNamespace) set(ns kernel.Namespace, a state.Allocation) kernel.Namespace {
	n.close()
	n.Namespace, n.path = ns, a.Netns
	return n
}

// Close does nothing: it is open until the operation ends.
func (*openedNamespace) Close() error { return nil }

func (n *openedNamespace) close() {
	if n.Namespace != nil {
		_ = n.Namespace.Close() // nothing to lose
		n.Namespace = nil
	}
}

// NamespacePath is what libcni gets for DEL: empty when the namespace is missing, as the CNI
// specification allows. A path that is no longer the allocation's namespace would make plugins
// fail, or harm another one.
func (o *Operation) NamespacePath() (path string, err error) {
	if _, err := o.Namespace(); errors.Is(err, netns.ErrMissing) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	return o.Record.Allocation.Netns, nil
}

// FindNamespace is NamespacePath. It also finds a namespace that its path does not lead to any more, and
// that a process keeps: otherwise its interfaces would keep addresses that others get after DEL.
func (o *Operation) FindNamespace() (path string, err error) {
	path, err = o.NamespacePath()
	a := o.Record.Allocation
	if path != "" || err != nil || a.NetnsID == "" {
		return path, err
	}
	if past, err := a.IsOfEarlierBoot(); past || err != nil {
		return "", err
	}
	ns, err := o.Config.Namespaces.Find(a.NetnsID, a.Created)
	if errors.Is(err, netns.ErrMissing) {
		o.Log.Debug("namespace is missing", "error", err)
		return "", nil
	}
	if err == nil {
		o.opened.set(ns, a)
	}
	return a.Netns, err
}
