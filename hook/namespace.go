// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"sync"

	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/state"
)

// namespace returns the namespace of the allocation. An operation opens it once, because its
// path may lead to another one meanwhile.
func (o *operation) namespace() (kernel.Namespace, error) {
	a := o.record.Allocation
	o.opened.mu.Lock()
	defer o.opened.mu.Unlock()
	if o.opened.of(a) {
		return &o.opened, nil
	}
	ns, err := o.config.openNamespace(a)
	if err != nil {
		return nil, err
	}
	return o.opened.set(ns, a), nil
}

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

func (c Config) openNamespace(a state.Allocation) (kernel.Namespace, error) {
	return state.OpenNamespace(a, c.Namespaces.Open)
}
