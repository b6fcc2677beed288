// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import "github.com/allocnet/allocnet/internal/netns"

// Namespace opens the network namespace that the allocation has now; see
// OpenNamespace.
func (a Allocation) Namespace() (*netns.Namespace, error) { return OpenNamespace(a, netns.Open) }

// OpenNamespace opens, by the given function, the network namespace that an
// allocation has now. Whatever is at its path, it is missing (netns.ErrMissing)
// when it was of an earlier boot, or when the recorded identity is another one's.
// This alone decides whether the namespace of a record is missing.
func OpenNamespace[N openNamespace](a Allocation, open func(path string) (N, error)) (N, error) {
	var none N
	past, err := a.IsOfEarlierBoot()
	if err != nil {
		return none, err
	}
	if past {
		return none, &netns.MissingError{Path: a.Netns, Reason: "it was of an earlier boot"}
	}
	ns, err := open(a.Netns)
	if err != nil {
		return none, err
	}
	if a.NetnsID != "" && ns.ID() != a.NetnsID {
		_ = ns.Close() // another namespace
		return none, &netns.MissingError{Path: a.Netns, Reason: "the path has another namespace now"}
	}
	return ns, nil
}

// openNamespace is what an open namespace has.
type openNamespace interface {
	ID() string
	Close() error
}

// IsOfEarlierBoot tells whether the allocation was set up in an earlier boot, with
// which its namespace, links and rules went.
func (a Allocation) IsOfEarlierBoot() (bool, error) {
	if a.BootID == "" { // not known
		return false, nil
	}
	boot, err := BootID()
	return err == nil && a.BootID != boot, err
}
