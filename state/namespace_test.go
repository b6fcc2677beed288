// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"errors"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
)

// fakeNamespace is an open namespace with an identity.
type fakeNamespace string

func (n fakeNamespace) ID() string { return string(n) }
func (fakeNamespace) Close() error { return nil }

// TestNamespace: what is at the recorded path is the allocation's only if the
// recorded boot and identity are its own.
func TestNamespace(t *testing.T) {
	boot, err := BootID()
	must(t, err)
	const exists, id = "/run/netns/a", "1"
	open := func(path string) (fakeNamespace, error) {
		if path != exists {
			return "", &netns.MissingError{Path: path}
		}
		return id, nil
	}
	for name, test := range map[string]struct {
		allocation Allocation
		missing    bool
	}{
		"its own":                              {Allocation{Netns: exists, BootID: boot, NetnsID: id}, false},
		"before its identity was known":        {Allocation{Netns: exists, BootID: boot}, false},
		"another in its place":                 {Allocation{Netns: exists, BootID: boot, NetnsID: "other"}, true},
		"another, and the boot is not known":   {Allocation{Netns: exists, NetnsID: "other"}, true},
		"of an earlier boot":                   {Allocation{Netns: exists, BootID: "earlier", NetnsID: id}, true},
		"of an earlier boot, and not yet made": {Allocation{Netns: exists, BootID: "earlier"}, true},
		"of an earlier boot, without a path":   {Allocation{BootID: "earlier"}, true},
		"nothing is there":                     {Allocation{Netns: "/nowhere", BootID: boot, NetnsID: id}, true},
	} {
		_, err := OpenNamespace(test.allocation, open)
		if errors.Is(err, netns.ErrMissing) != test.missing || err != nil && !test.missing {
			t.Errorf("%s: %v, want missing %t", name, err, test.missing)
		}
	}
}
