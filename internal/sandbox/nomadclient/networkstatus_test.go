// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadclient

import (
	"net"
	"testing"

	gocni "github.com/containerd/go-cni"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/nomad"
)

func TestNetworkStatus(t *testing.T) {
	at := func(sandbox string, addresses ...string) *gocni.Config {
		c := &gocni.Config{Sandbox: sandbox}
		for _, address := range addresses {
			c.IPConfigs = append(c.IPConfigs, &gocni.IPConfig{IP: net.ParseIP(address)})
		}
		return c
	}
	type interfaces map[string]*gocni.Config
	for name, test := range map[string]struct {
		found         interfaces
		since         nomad.Version
		want, earlier *NetworkStatus
	}{
		"the first by name":    {interfaces{"eth0": at("x", "10.0.0.1"), "dmz0": at("x", "10.0.0.2")}, nomad.Version{}, &NetworkStatus{InterfaceName: "dmz0", Address: "10.0.0.2"}, nil},
		"one in the namespace": {interfaces{"a": at("", "10.0.0.1"), "eth0": at("x", "10.0.0.2")}, nomad.Version{}, &NetworkStatus{InterfaceName: "eth0", Address: "10.0.0.2"}, nil},
		"one of the host":      {interfaces{"a": at("", "10.0.0.1"), "eth0": at("x")}, nomad.Version{}, &NetworkStatus{InterfaceName: "a", Address: "10.0.0.1"}, nil},
		"IPv6 first":           {interfaces{"eth0": at("x", "fd00::1", "10.0.0.1")}, bothFamilies, &NetworkStatus{InterfaceName: "eth0", Address: "10.0.0.1", AddressIPv6: "fd00::1"}, &NetworkStatus{InterfaceName: "eth0", Address: "fd00::1"}},
		"no address":           {interfaces{"eth0": at("x")}, nomad.Version{}, nil, nil},
	} {
		for _, version := range append(Versions(), Real) {
			want := test.want
			if !version.Has(test.since) {
				want = test.earlier
			}
			got, err := newNetworkStatus(version, &gocni.Result{Interfaces: test.found, DNS: []types.DNS{{}}})
			if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (want != nil) {
				t.Errorf("%s in %s: %v\n%s", name, version, err, diff)
			}
		}
	}
}
