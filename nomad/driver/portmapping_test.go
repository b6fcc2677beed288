// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/selection"
)

// TestPortMappings: a task chooses ports of the host as a selection does, and no key is ignored.
func TestPortMappings(t *testing.T) {
	c := taskConfig{Networks: map[string]networkConfig{"media": {PortMappings: []map[string]string{
		{"host_port": "10000-10199", "protocol": "udp"},
		{"host_port": "8080", "container_port": "80", "host_ip": "192.0.2.1"},
	}}}}
	elements, err := c.elements()
	want := []selection.PortMapping{
		{HostPort: allocation.PortRange{First: 10000, Last: 10199}, Protocol: "udp"},
		{HostPort: allocation.PortRange{First: 8080, Last: 8080}, ContainerPort: 80, HostIP: "192.0.2.1"},
	}
	if err != nil || !cmp.Equal(elements[0].PortMappings, want) {
		t.Errorf("%v, %v, want %v", elements, err, want)
	}
	for want, keys := range map[string]map[string]string{
		`config: network "media": port_mappings[0]: hostPort "2-1": want a port from 1 to 65535, or a range as in "10000-10199"`: {"host_port": "2-1"},
		`config: network "media": port_mappings[0]: container_port "x": want a port from 1 to 65535`:                             {"host_port": "80", "container_port": "x"},
		`config: network "media": port_mappings[0]: unknown key "port": want host_port, container_port, protocol or host_ip`:     {"host_port": "80", "port": "1"},
	} {
		c := taskConfig{Networks: map[string]networkConfig{"media": {PortMappings: []map[string]string{keys}}}}
		if _, err := c.elements(); err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", keys, err, want)
		}
	}
}
