// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/allocnet/allocnet/cniconf"
)

// TestDHCPDaemons: a network whose plugin dhcp is executed needs the socket of the daemon, at the path that it has.
func TestDHCPDaemons(t *testing.T) {
	dir := t.TempDir()
	present := filepath.Join(dir, "present.sock")
	if err := os.WriteFile(present, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const fix = " => systemctl enable --now allocnet.service, whose agent asks for leases itself, or systemctl enable --now allocnet-cni-dhcp.socket"
	missing := filepath.Join(dir, "missing.sock")
	for name, test := range map[string]struct {
		ipam string
		why  error
		want []string
	}{
		"in process":    {fmt.Sprintf(`{"type": "dhcp", "daemonSocketPath": %q}`, missing), nil, nil},
		"with a socket": {fmt.Sprintf(`{"type": "dhcp", "daemonSocketPath": %q}`, present), errors.New("no agent"), nil},
		"another type":  {`{"type": "static"}`, errors.New("no agent"), nil},
		"without socket": {fmt.Sprintf(`{"type": "dhcp", "daemonSocketPath": %q}`, missing), errors.New("no agent"), []string{
			`error n.conflist: network "n" needs the dhcp daemon: its socket ` + missing + ` is missing; allocnet does not execute network "n" itself: no agent` + fix,
		}},
	} {
		n, err := cniconf.ParseNetwork("n.conflist", fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "macvlan", "ipam": %s}]}`, test.ipam))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			r := &Report{}
			(&Doctor{WhyPlugins: func(*cniconf.Network) error { return test.why }}).dhcpDaemons(r, []network{describe(n)})
			requireFindings(t, r, test.want...)
		})
	}
}
