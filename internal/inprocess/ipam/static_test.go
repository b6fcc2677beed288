// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/inprocess/plugin"
)

// TestStatic: the ways of giving addresses, and which of them count.
func TestStatic(t *testing.T) {
	const configured = `"addresses": [{"address": "10.0.0.7/24", "gateway": "10.0.0.1"}]`
	for name, test := range map[string]struct {
		version, ipam, outer, args string
		// want are addresses with gateways.
		want []string
		err  string
	}{
		"configured":             {ipam: configured, want: []string{"10.0.0.7/24 10.0.0.1"}},
		"none":                   {ipam: `"addresses": []`},
		"without gateway":        {ipam: `"addresses": [{"address": "fd00::7/64"}]`, want: []string{"fd00::7/64 <nil>"}},
		"CNI_ARGS":               {ipam: configured, args: "IP=10.1.0.8/24, fd00::8/64", want: []string{"10.0.0.7/24 10.0.0.1", "10.1.0.8/24 <nil>", "fd00::8/64 <nil>"}},
		"CNI_ARGS with gateways": {ipam: configured, args: "IP=10.1.0.8/24;GATEWAY=10.0.0.9, 10.1.0.9", want: []string{"10.0.0.7/24 10.0.0.1", "10.1.0.8/24 10.1.0.9"}},
		"args":                   {ipam: configured, args: "IP=10.1.0.8/24", outer: `"args": {"cni": {"ips": ["10.2.0.9/24"]}}`, want: []string{"10.2.0.9/24 <nil>"}},
		"capability":             {ipam: configured, outer: `"args": {"cni": {"ips": ["10.2.0.9/24"]}}, "runtimeConfig": {"ips": ["10.3.0.9/24"]}`, want: []string{"10.3.0.9/24 <nil>"}},
		"two of a family":        {version: "0.2.0", ipam: configured, args: "IP=10.1.0.8/24", err: "CNI version 0.2.0 does not support more than 1 address per family"},
		"no mask":                {ipam: `"addresses": [{"address": "10.0.0.7"}]`, err: "the 'address' field is expected to be in CIDR notation, got: '10.0.0.7'"},
		"no mask in CNI_ARGS":    {ipam: configured, args: "IP=10.0.0.8", err: "the 'ip' field is expected to be in CIDR notation, got: '10.0.0.8'"},
		"no mask in args":        {ipam: configured, outer: `"args": {"cni": {"ips": ["10.0.0.8"]}}`, err: "an entry in the 'ips' field is NOT in CIDR notation, got: '10.0.0.8'"},
		"no mask in capability":  {ipam: configured, outer: `"runtimeConfig": {"ips": ["10.0.0.8"]}`, err: "an entry in the 'ips' field is NOT in CIDR notation, got: '10.0.0.8'"},
		"invalid gateway":        {ipam: configured, args: "GATEWAY=10.0.0", err: "invalid gateway address: 10.0.0"},
		"unknown CNI_ARGS":       {ipam: configured, args: "OTHER=1", err: "unknown args"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.version == "" {
				test.version = "1.0.0"
			}
			if test.outer == "" {
				test.outer = `"type": "bridge"`
			}
			config := fmt.Sprintf(`{"cniVersion": %q, "name": "net", %s, "ipam": {"type": "static", %s}}`, test.version, test.outer, test.ipam)
			result, err := addStatic(&plugin.Call{Config: []byte(config), Args: test.args})
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, address := range result.IPs {
				got = append(got, fmt.Sprint(address.Address.String(), " ", address.Gateway))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
}
