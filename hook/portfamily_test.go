// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
)

// TestUnreachedPorts: the log warns of ports that a plugin's interface answers past the host.
func TestUnreachedPorts(t *testing.T) {
	for plugin, want := range map[string]bool{"macvlan": true, "ipvlan": true, "vlan": true, "host-device": true, "bridge": false, "ptp": false} {
		var log bytes.Buffer
		m := newMemory(t, func(c *Config) { c.Logger = hclog.New(&hclog.LoggerOptions{Output: &log}) })
		m.network(t, "web", plugin, `{"type": "portmap", "capabilities": {"portMappings": true}}`)
		for _, ports := range [][]portmap.Port{nil, {{Label: "http", HostPort: 8090, To: 80, Protocol: "tcp"}}} {
			if _, err := m.Setup(t.Context(), Request{ID: "a", Primary: &selection.Element{Name: "web"}, Ports: ports}); err != nil {
				t.Fatal(err)
			}
			if warned := strings.Contains(log.String(), "published ports do not answer"); warned != (want && ports != nil) {
				t.Errorf("%s, ports %v: log:\n%s", plugin, ports, &log)
			}
			if err := m.Teardown(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestOwnPublishedPorts: the log warns of ports that the allocation itself does not reach, because the bridge does not return packets to
// the port that they came from.
func TestOwnPublishedPorts(t *testing.T) {
	for name, test := range map[string]struct {
		plugin         string
		filters, ports bool
		want           bool
	}{
		"with br_netfilter":    {`{"type": "bridge"}`, true, true, true},
		"without br_netfilter": {`{"type": "bridge"}`, false, true, false},
		"without ports":        {`{"type": "bridge"}`, true, false, false},
		"with hairpin mode":    {`{"type": "bridge", "hairpinMode": true}`, true, true, false},
		"without a bridge":     {`{"type": "ptp"}`, true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			m := newMemory(t, func(c *Config) { c.Logger = hclog.New(&hclog.LoggerOptions{Output: &log}) })
			m.host.filtersBridges = test.filters
			m.network(t, "web", test.plugin, `{"type": "portmap", "capabilities": {"portMappings": true}}`)
			request := Request{ID: "a", Primary: &selection.Element{Name: "web"}}
			if test.ports {
				request.Ports = []portmap.Port{{Label: "http", HostPort: 8090, To: 80, Protocol: "tcp"}}
			}
			if _, err := m.Setup(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			if warned := strings.Contains(log.String(), "does not reach its own published ports"); warned != test.want {
				t.Errorf("log:\n%s", &log)
			}
		})
	}
}

// TestPortFamily: the portmap plugin succeeds without a rule when no address of the
// attachment is of the host IP's family.
func TestPortFamily(t *testing.T) {
	const v4, v6 = `{"address": "10.1.0.2/24", "interface": 0}`, `{"address": "fd00::2/64", "interface": 0}`
	for name, test := range map[string]struct {
		ips, hostIP string
		// reason is the end of the error of a chosen port; empty: it is mapped.
		reason string
	}{
		"IPv6 on an IPv4 network":   {v4, "fd00::1", "no IPv6 address, but [10.1.0.2/24]: choose a host IP of their family, or give the network a range of IPv6 addresses"},
		"all of IPv6":               {v4, "::", "no IPv6 address, but [10.1.0.2/24]: choose a host IP of their family, or give the network a range of IPv6 addresses"},
		"IPv4 on an IPv6 network":   {v6, "127.0.0.1", "no IPv4 address, but [fd00::2/64]: choose a host IP of their family, or give the network a range of IPv4 addresses"},
		"no address":                {"", "", "cannot be mapped: the attachment has no address"},
		"IPv4":                      {v4, "127.0.0.1", ""},
		"IPv4 in the form of IPv6":  {v4, "::ffff:127.0.0.1", ""},
		"all addresses of the host": {v6, "", ""},
		"both families":             {v4 + ", " + v6, "fd00::1", ""},
		"the host's own IPv6":       {v4 + ", " + v6, "::1", "::1 cannot be mapped: connections to it do not leave the host: choose 127.0.0.1, or another address of the host"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			m := newMemory(t, func(c *Config) { c.Logger = hclog.New(&hclog.LoggerOptions{Output: &log}) })
			m.network(t, "web", "bridge", `{"type": "portmap", "capabilities": {"portMappings": true}}`)
			m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
				result := fmt.Sprintf(`{"cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": "/x"}], "ips": [%s]}`, test.ips)
				if c.Verb == "ADD" {
					m.namespaces.add(c.Environ["CNI_NETNS"], netns.Interface{Name: "eth0", Up: true})
				}
				return c.Verb == "ADD", []byte(result), nil
			}
			request := Request{ID: "a", Primary: &selection.Element{Name: "web"}, Ports: []portmap.Port{{Label: "http", HostPort: 8090, To: 80, HostIP: test.hostIP, Protocol: "tcp"}}}
			if _, err := m.Setup(t.Context(), request); err != nil {
				t.Errorf("an assigned port: %v", err)
			}
			if warned := strings.Contains(log.String(), "an assigned port is not mapped"); warned != (test.reason != "") {
				t.Errorf("log:\n%s", &log)
			}
			if err := m.Teardown(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			m.exec.names()

			request.Operator = true
			_, err := m.Setup(t.Context(), request)
			var refused *PortFamilyError
			if errors.As(err, &refused) != (test.reason != "") || refused != nil && !strings.HasSuffix(refused.Error(), test.reason) {
				t.Errorf("a chosen port: %v, want %q", err, test.reason)
			}
			if test.reason != "" && errdefs.Of(err) != errdefs.Refused {
				t.Errorf("the kind is %s", errdefs.Of(err))
			}
			if calls := m.exec.names(); test.reason != "" && !slices.Equal(calls, []string{"ADD bridge eth0", "ADD portmap eth0", "DEL portmap eth0", "DEL bridge eth0"}) {
				t.Errorf("calls %v, want one ADD and its DEL", calls)
			}
		})
	}
}
