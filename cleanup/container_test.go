// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/state"
)

// TestOneAttachmentOfSeveral: forced cleanup of one attachment leaves the others
// of the allocation, and what another runtime made under its ID, on the same
// network.
func TestOneAttachmentOfSeveral(t *testing.T) {
	gone := state.Attachment{Network: "nat", Interface: "net2", ContainerID: state.ContainerID("a", "net2")}
	known := []Owner{ownerOf("nat", gone.ContainerID, "net2"), ownerOf("nat", "a.allocnet.net1", "net1"), ownerOf("nat", "a", "eth0")}
	var objects []Object
	for _, o := range known {
		objects = append(objects,
			Object{Kind: Masquerade, Where: "chain of " + o.ContainerID, key: masqueradeChain(o)},
			Object{Kind: Ports, Where: "port of " + o.ContainerID, Owner: ownerOf("", o.ContainerID, "")},
			Object{Kind: Tuning, nameOnly: true, Where: "tuning of " + o.ContainerID, key: tuningFile(o), Owner: ownerOf("", o.ContainerID, o.Interface)},
			Object{Kind: Lease, Where: "lease of " + o.ContainerID, Owner: o})
	}
	attribute(catalogue, objects, known)
	found := &scanResult{Objects: objects}
	left, err := found.objectsOf([]state.Leftover{{Allocation: state.Allocation{ID: "a", Netns: "/nonexistent"}, Suspects: []state.Suspect{{Attachment: gone}}}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range left {
		got = append(got, o.Where)
		if o.Owner.Allocation != "a" {
			t.Errorf("%s is of allocation %q", o.Where, o.Owner.Allocation)
		}
	}
	if want := []string{"chain of a.allocnet.net2", "port of a.allocnet.net2", "tuning of a.allocnet.net2", "lease of a.allocnet.net2"}; !slices.Equal(got, want) {
		t.Errorf("would remove %q, want %q", got, want)
	}
}

// TestRecordWithoutContainerID has nothing in common with what shows no owner.
func TestRecordWithoutContainerID(t *testing.T) {
	for _, o := range []Owner{{}, {Network: "web"}, {Interface: "net1"}} {
		if o.matches(state.Attachment{Network: "web", Interface: "net1"}) {
			t.Errorf("%+v is taken for the attachment's", o)
		}
	}
}

// TestAllocationLives: what shows the container ID of an attachment is judged by
// its allocation.
func TestAllocationLives(t *testing.T) {
	lease := Object{Kind: Lease, Owner: ownerOf("web", "a.allocnet.net1", "net1"), Addresses: address("10.0.0.2")}
	records := func() recordSet {
		return recordSet{networks: map[string]bool{"web": true}, allocations: map[string]recordedAllocation{}}
	}
	recorded := records()
	recorded.allocations["a"] = recordedAllocation{}
	for name, test := range map[string]struct {
		homes   []home
		records recordSet
		live    Live
	}{
		"by a source":    {nil, records(), func(id string) string { return map[string]string{"a": "Nomad"}[id] }},
		"on record":      {nil, recorded, NoneLive},
		"by a namespace": {[]home{{allocation: "a", why: "namespace"}}, records(), NoneLive},
	} {
		found := &scanResult{Objects: []Object{lease}, homes: test.homes}
		decisions, _, err := plan(found, test.records, test.live, "")
		if err != nil || decisions[0].Leaked {
			t.Errorf("%s: %+v, %v", name, decisions, err)
		}
	}
	found := &scanResult{Objects: []Object{lease}}
	decisions, _, err := plan(found, records(), NoneLive, "")
	if err != nil || !decisions[0].Leaked || !(Scope{Allocation: "a"}).has(decisions[0].Object) {
		t.Errorf("of a dead one: %+v, %v", decisions, err)
	}
}

// TestCacheOfAttachment: a cached result whose namespace exists shows that the
// allocation lives.
func TestCacheOfAttachment(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "results"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := `{"kind": "cniCacheV1", "containerId": "a.allocnet.net1", "networkName": "web", "ifName": "net1", "netns": "/proc/self/ns/net"}`
	if err := os.WriteFile(filepath.Join(dir, "results", "web-a.allocnet.net1-net1"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	found, _ := scanCache(dir)
	if len(found.Objects) != 1 || found.Objects[0].Owner != ownerOf("web", "a.allocnet.net1", "net1") || len(found.homes) != 1 || found.homes[0].allocation != "a" || found.homes[0].inode == 0 {
		t.Errorf("found %+v, homes %v", found.Objects, found.homes)
	}
}
