// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"encoding/json"
	"fmt"
	"testing"
)

// TestLeaseUsers attributes the leases of each directory to the network whose attachment has
// them, whatever the directory is named after.
func TestLeaseUsers(t *testing.T) {
	root := t.TempDir()
	network := func(name, ipam string) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %q, "plugins": [{"type": "bridge", "ipam": %s}]}`, name, ipam))
	}
	elsewhere := t.TempDir()
	s := scanner{cacheDir: t.TempDir(), host: newFakeSystem().host(catalogue.within(root)), confLists: []json.RawMessage{
		network("local", `{"type": "host-local"}`),
		network("one", `{"type": "allocnet-ipam", "pool": "single"}`),
		network("two", `{"type": "allocnet-ipam", "pool": "shared"}`),
		network("three", `{"type": "allocnet-ipam", "pool": "shared"}`),
		network("four", fmt.Sprintf(`{"type": "allocnet-ipam", "pool": "single", "dataDir": %q}`, elsewhere)),
	}, known: []Owner{ownerOf("two", "a1", "eth0"), ownerOf("three", "a2", "eth0"), ownerOf("three", "a3", "eth0"), ownerOf("two", "a3", "eth0"),
		ownerOf("one", "a4", "eth0"), ownerOf("three", "a4", "eth1")}}
	base := root + "/var/lib/cni/networks/"
	want := map[string]string{}
	for _, lease := range []struct{ path, owner, network string }{
		{base + "local/10.0.0.1", "a1", "local"},
		{base + "single/10.0.1.1", "a1", "one"},
		{elsewhere + "/single/10.0.1.1", "a1", "four"},
		{base + "removed/10.0.2.1", "a1", "removed"},
		{base + "shared/10.0.3.1", "a1", "two"},
		{base + "shared/10.0.3.2", "a2", "three"},
		{base + "shared/10.0.3.3", "a3", ""},    // both have such an attachment
		{base + "shared/10.0.3.4", "a4", ""},    // its attachments have other networks or interfaces
		{base + "shared/10.0.3.5", "other", ""}, // of another runtime
	} {
		writeFile(t, lease.path, lease.owner+"\r\neth0")
		want[lease.path] = lease.network
	}
	for _, dir := range []string{base + "local", base + "single", base + "shared", base + "removed", elsewhere + "/single"} {
		writeFile(t, dir+"/lock", "")
	}
	found, err := s.scan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range found.Objects {
		network, ok := want[o.Where]
		if !ok || o.Owner.Network != network {
			t.Errorf("%s is of network %q, want %q", o.Where, o.Owner.Network, network)
		}
		if shared := network == ""; shared != (len(o.Networks()) == 2) {
			t.Errorf("%s can be of %v", o.Where, o.Networks())
		}
		delete(want, o.Where)
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
}
