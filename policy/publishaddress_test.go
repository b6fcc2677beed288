// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cniconf"
)

const (
	publishPool    = `"type": "allocnet-ipam", "pool": "public", "ranges": [{"subnet": "192.0.2.0/24"}, {"subnet": "2001:db8:2::/64"}], "reserved": ["192.0.2.48/29", "2001:db8:2::50/128"]`
	publishExample = `{"publishAddress": {"interface": "eth0", "addresses": [{"jobs": ["web"], "addresses": ["192.0.2.50", "2001:db8:2::50"]}, {"jobs": ["db-*"], "addresses": ["192.0.2.51"]}], "ipam": {` + publishPool + `}}}`
	portmapPlugin  = `{"type": "bridge", "ipam": {"type": "host-local"}}, {"type": "portmap", "capabilities": {"portMappings": true}}`
)

// TestPublishAddress: the first rule that is for an allocation counts.
func TestPublishAddress(t *testing.T) {
	s, err := Of(network(t, "web", publishExample, portmapPlugin))
	if err != nil {
		t.Fatal(err)
	}
	for job, want := range map[string]string{"web": "[192.0.2.50 2001:db8:2::50]", "db-1": "[192.0.2.51]", "mail": "", "": ""} {
		of := s.PublishAddress.Of(Identity{Namespace: "default", Job: job})
		if of == nil && want == "" {
			continue
		}
		if of == nil || fmt.Sprint(of.Addresses) != want || of.Interface != "eth0" || !strings.Contains(string(of.IPAM), `"public"`) {
			t.Errorf("job %q: %+v, want %s", job, of, want)
		}
	}
	if got := s.Describe(); got != "publish addresses 192.0.2.50,2001:db8:2::50,192.0.2.51" {
		t.Errorf("described as %q", got)
	}
	if of := (*PublishAddress)(nil).Of(Identity{}); of != nil {
		t.Errorf("without the key: %+v", of)
	}
}

// TestPublishAddressRefuses: what is not understood, or would have no effect.
func TestPublishAddressRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`"192.0.2.50"`: "want one JSON object",
		`{}`:           `want {"addresses"`,
		`{"addresses": "192.0.2.50", "interface": "eth0"}`:                                                                       `want {"addresses"`,
		`{"addresses": "192.0.2.50", "interface": "", "ipam": {` + publishPool + `}}`:                                            `want {"addresses"`,
		`{"addresses": "192.0.2.50", "interface": "eth0", "ipam": {` + publishPool + `}, "jobs": []}`:                            `unknown key "jobs"`,
		`{"addresses": "192.0.2.50", "Interface": "eth0", "ipam": {` + publishPool + `}}`:                                        `unknown key "Interface"`,
		`{"addresses": "192.0.2.99", "interface": "eth0", "ipam": {` + publishPool + `}}`:                                        `want one of "reserved" of pool "public"`,
		`{"addresses": ["192.0.2.50", "192.0.2.51"], "interface": "eth0", "ipam": {` + publishPool + `}}`:                        `publishAddress.addresses "192.0.2.51": want an address`,
		`{"addresses": [{"job": "a"}], "interface": "eth0", "ipam": {` + publishPool + `}}`:                                      "want an address, a list",
		`{"addresses": "192.0.2.50", "interface": "eth0", "ipam": {` + publishPool + `, "sticky": true}}`:                        "omit them",
		`{"addresses": "192.0.2.50", "interface": "eth0", "ipam": {` + publishPool + `, "routes": [{"dst": "0.0.0.0/0"}]}}`:      "omit them",
		`{"addresses": "192.0.2.50", "interface": "eth0", "ipam": {` + publishPool + `, "dns": {"nameservers": ["192.0.2.1"]}}}`: "omit them",
		`{"addresses": "192.0.2.50", "interface": "eth0", "ipam": {` + publishPool + `, "mode": "auto"}}`:                        "mode",
		`{"addresses": "192.0.2.50", "interface": "eth0", "ipam": {"type": "host-local"}}`:                                       "publishAddress.ipam",
	} {
		if _, err := Of(network(t, "web", `{"publishAddress": `+text+`}`, portmapPlugin)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestCheckPublishAddress: only this process gives the host addresses, and only for ports.
func TestCheckPublishAddress(t *testing.T) {
	inProcess, executed := func(*cniconf.Network) error { return nil }, func(*cniconf.Network) error { return errors.New("a reason") }
	for _, c := range []struct {
		options, plugins string
		why              func(*cniconf.Network) error
		want             string
	}{
		{publishExample, portmapPlugin, inProcess, ""},
		{publishExample, portmapPlugin, executed, "a reason"},
		{publishExample, `{"type": "bridge"}`, inProcess, "portmap"},
		{publishExample, `{"type": "bridge"}, {"type": "portmap"}`, inProcess, "portMappings"},
		{publishExample, `{"type": "macvlan", "master": "eth0"}, {"type": "portmap", "capabilities": {"portMappings": true}}`, inProcess, "want the plugin bridge or ptp"},
		{publishExample, `{"type": "bridge", "ipam": {` + publishPool + `}}, {"type": "portmap", "capabilities": {"portMappings": true}}`, inProcess, "another pool"},
		{strings.Replace(publishExample, `{`, `{"publish": "both", `, 1), portmapPlugin, inProcess, "remove one of them"},
		{`{}`, portmapPlugin, executed, ""},
	} {
		err := CheckPublishAddress(network(t, "web", c.options, c.plugins), c.why)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if !slices.Contains(restricting, "publishAddress") {
		t.Error("publishAddress in a plugin is accepted")
	}
}
