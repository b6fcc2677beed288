// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/selection"
)

// TestSpecialAddresses: addresses that reach nothing are refused before anything is attached, in whatever way they are given.
func TestSpecialAddresses(t *testing.T) {
	static := `"type": "static", "addresses": [{"address": "10.3.0.2/24"}]`
	for name, test := range map[string]struct {
		ipam, ip, want string
	}{
		"multicast subnet":             {ipam: `"type": "host-local", "subnet": "224.1.0.0/24"`, want: `web.conflist: subnet 224.1.0.0/24 in "ipam" of bridge: multicast addresses`},
		"multicast range":              {ipam: `"type": "host-local", "ranges": [[{"subnet": "10.3.0.0/24"}], [{"subnet": "ff05::/64"}]]`, want: `subnet ff05::/64 in "ipam" of bridge: multicast`},
		"subnet with all":              {ipam: `"type": "host-local", "subnet": "0.0.0.0/0"`, want: `subnet 0.0.0.0/0 in "ipam" of bridge: multicast`},
		"loopback":                     {ipam: `"type": "host-local", "subnet": "127.8.0.0/24"`, want: `subnet 127.8.0.0/24 in "ipam" of bridge: loopback`},
		"from before":                  {ipam: `"type": "host-local", "subnet": "126.0.0.0/7", "rangeStart": "126.9.0.0"`, want: "loopback"},
		"before":                       {ipam: `"type": "host-local", "subnet": "126.0.0.0/7", "rangeEnd": "126.9.0.0"`},
		"gateway":                      {ipam: `"type": "host-local", "subnet": "10.3.0.0/24", "gateway": "224.0.0.1"`, want: `gateway 224.0.0.1 in "ipam" of bridge: multicast`},
		"allocnet-ipam":                {ipam: `"type": "allocnet-ipam", "pool": "p", "ranges": [{"subnet": "224.1.0.0/16"}]`, want: `subnet 224.1.0.0/16 in "ipam" of bridge: multicast`},
		"static":                       {ipam: `"type": "static", "addresses": [{"address": "10.3.0.2/24"}, {"address": "::1/64"}]`, want: `address ::1/64 in "ipam" of bridge: loopback`},
		"static broadcast":             {ipam: `"type": "static", "addresses": [{"address": "255.255.255.255/24"}]`, want: "broadcast"},
		"static unspecified":           {ipam: `"type": "static", "addresses": [{"address": "::/64"}]`, want: "unspecified"},
		"static gateway":               {ipam: `"type": "static", "addresses": [{"address": "10.3.0.2/24", "gateway": "0.0.0.0"}]`, want: `gateway 0.0.0.0 in "ipam" of bridge: unspecified`},
		"chosen multicast":             {ipam: static, ip: "224.1.0.9/24", want: `"224.1.0.9": want a unicast address`},
		"chosen broadcast":             {ipam: static, ip: "255.255.255.255/32", want: "want a unicast address"},
		"chosen":                       {ipam: static, ip: "10.3.0.9/24"},
		"link-local":                   {ipam: `"type": "host-local", "ranges": [[{"subnet": "169.254.7.0/24"}], [{"subnet": "fe80::/64"}]]`},
		"reserved by the registry":     {ipam: `"type": "host-local", "subnet": "240.0.0.0/24"`},
		"a mistake the plugin reports": {ipam: `"type": "static", "addresses": [{"address": "224.0.0.1"}]`},
	} {
		for _, executor := range []string{ExecutorAuto, ExecutorPlugins} {
			m := newMemory(t, func(c *Config) { c.Executor = executor })
			m.network(t, "web", fmt.Sprintf(`{"type": "bridge", "capabilities": {"ips": true}, "ipam": {%s}}`, test.ipam))
			m.network(t, "others", "host-local", "static", "allocnet-ipam")
			primary := &selection.Element{Name: "web", Interface: "eth0"}
			request := Request{ID: "w1", Primary: primary, Operator: true}
			ways := []func(){func() {}}
			if test.ip != "" {
				ways = []func(){func() { primary.IPs = []string{test.ip} }, func() { primary.IPs, request.Args = nil, map[string]string{"IP": test.ip} }}
			}
			if test.want == "" { // the fake adds a length to the argument
				ways = ways[:1]
			}
			for way, choose := range ways {
				choose()
				_, err := m.Setup(t.Context(), request)
				if test.want == "" {
					if err = errors.Join(err, m.Teardown(t.Context(), "w1")); err != nil {
						t.Errorf("%s, %s, way %d: %v", name, executor, way, err)
					}
					continue
				}
				if errdefs.Of(err) != errdefs.Refused || !strings.Contains(err.Error(), test.want) || len(m.exec.names()) > 0 {
					t.Errorf("%s, %s, way %d: %v, want %q", name, executor, way, err, test.want)
				}
				catalog, failed := m.Catalog()
				if n, missing := catalog.Lookup("web"); test.ip == "" && (errors.Join(failed, missing) != nil || m.env.Config.CheckKeys(n) == nil) {
					t.Errorf("%s: networks and doctor do not say it: %v", name, failed)
				}
			}
		}
	}
}
