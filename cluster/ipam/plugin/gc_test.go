// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/connect"
	"github.com/allocnet/allocnet/cluster/ipam"
)

// TestGCKeepsWhatIsMadeMeanwhile: an address that is assigned while GC looks at the namespaces
// is of an attachment that the runtime could not list.
func TestGCKeepsWhatIsMadeMeanwhile(t *testing.T) {
	dir := t.TempDir()
	keys := fmt.Sprintf(`{"cniVersion": "1.1.0", "name": "n", "type": "bridge", "cni.dev/valid-attachments": [], "ipam": {"type": "allocnet-ipam",
		"pool": "p", "ranges": [{"subnet": "10.0.0.0/24"}], "stateDir": %[1]q, "dataDir": "%[1]s/leases", "configDir": "%[1]s/none"}}`, dir)
	p := &Plugin{Connect: func(c *ipam.Config) Connection { return connect.New(c.ConfigDir, c.StateDir) }}
	add := func(id string) string {
		t.Helper()
		result, err := p.Add(t.Context(), Call{ContainerID: id, Interface: "eth0", Config: []byte(keys)})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "leases", "p", result.IPs[0].Address.IP.String())
		old := time.Now().Add(-2 * collectedAfter)
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
		return path
	}
	stale, meanwhile := add("stale"), ""
	p.InUse = func() (map[netip.Addr]string, error) {
		meanwhile = add("meanwhile")
		return nil, nil
	}
	without := strings.Replace(keys, `"cni.dev/valid-attachments": [], `, "", 1)
	if err := p.GC(t.Context(), Call{Config: []byte(without)}); err == nil || meanwhile != "" {
		t.Errorf("GC without a list: %v", err)
	}
	if _, err := os.Stat(stale); err != nil {
		t.Errorf("GC without a list: %v", err)
	}
	if err := p.GC(t.Context(), Call{Config: []byte(keys)}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(meanwhile); err != nil {
		t.Errorf("the address that was assigned meanwhile: %v", err)
	}
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("the stale address: %v", err)
	}
}
