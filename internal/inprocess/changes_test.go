// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/coreos/go-iptables/iptables"
)

// TestLeasesAreReleasedLast: not while a link may still have the address, nor while rules may
// still name it, and all of them. What fails is an error as a plugin gives it.
func TestLeasesAreReleasedLast(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // a host that cannot remove rules
	address := net.IPv4(192, 0, 2, 5)
	accept := iptablesRule{chain: forwardChain, args: []string{"-s", address.String(), "-j", "ACCEPT"}}
	removal := rules{remove: true, iptables: &iptablesRules{
		family: iptables.ProtocolIPv4, table: "filter", address: address, rules: []iptablesRule{accept},
	}}
	released := 0
	release := func(context.Context) error { released++; return errors.New("scripted") }
	leases := []func(context.Context) error{release, release}
	errs := Commit(t.Context(), nil, []*Changes{
		{leases: leases},
		{leases: leases, links: []link{{netns: "/dev/null", name: "eth0"}}},
		{leases: leases, rules: []rules{removal}},
	})
	if released != 2 {
		t.Errorf("%d leases are released, want those of the first network alone", released)
	}
	for i, err := range errs {
		var own *types.Error
		if !errors.As(err, &own) || own.Code != types.ErrInternal {
			t.Errorf("error %d: %v, want one with code %d", i, err, types.ErrInternal)
		}
	}
}
