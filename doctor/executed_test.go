// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cniconf"
)

// TestExecutedNFTables: the reference plugin portmap masquerades with nftables less than with iptables, so that allocations on one
// bridge need br_netfilter to reach each other by published ports.
func TestExecutedNFTables(t *testing.T) {
	dir := t.TempDir()
	text := `{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "bridge", "bridge": "br0", "isGateway": true, "macspoofchk": true,
		"ipam": {"type": "host-local", "subnet": "10.0.0.0/24"}}, {"type": "portmap", "backend": "nftables"}]}`
	if err := os.WriteFile(filepath.Join(dir, "a.conflist"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &Doctor{ConfDirs: []string{dir}, WhyPlugins: func(*cniconf.Network) error { return errors.New(`bridge: key "macspoofchk"`) }}
	r := &Report{}
	settings(r, d.networks(r), t.TempDir())
	for _, f := range r.Findings {
		if strings.Contains(f.Subject, "br_netfilter") {
			return
		}
	}
	t.Errorf("nothing is said of br_netfilter: %+v", r.Findings)
}
