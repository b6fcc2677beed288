// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// TestStatus: STATUS fails with its code when an ADD would.
func TestStatus(t *testing.T) {
	p, c := newPlugin(t.TempDir())
	if err := p.Status(t.Context(), c); err != nil {
		t.Errorf("of an empty pool: %v", err)
	}
	for id := range 4 {
		c.ContainerID = string(rune('a' + id))
		if _, err := p.Add(t.Context(), c); err != nil {
			requireCode(t, "ADD", err, types.ErrTryAgainLater, "no free address")
			requireCode(t, "STATUS", p.Status(t.Context(), c), types.ErrPluginNotAvailable, "no free address")
			return
		}
	}
	t.Error("a pool of two addresses is not full")
}

// TestKeep: an attachment whose DEL keeps its addresses gets the same again, and no other one gets them
// meanwhile.
func TestKeep(t *testing.T) {
	p, c := newPlugin(t.TempDir())
	before, err := p.Add(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	kept := c
	kept.Config = slices.Concat([]byte(`{"args": {"allocnet": {"keepAddresses": true}}, `), c.Config[1:])
	if err := p.Del(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	other := c
	other.ContainerID = "other"
	if result, err := p.Add(t.Context(), other); err == nil && result.IPs[0].Address.IP.Equal(before.IPs[0].Address.IP) {
		t.Errorf("another attachment has %s", result.IPs[0])
	}
	after, err := p.Add(t.Context(), kept)
	if err != nil || !after.IPs[0].Address.IP.Equal(before.IPs[0].Address.IP) {
		t.Errorf("%v, %v, want %v", after, err, before)
	}
}

// TestJobKeepsNothing: what jobs write into CNI_ARGS and "cni" keeps no address after DEL.
func TestJobKeepsNothing(t *testing.T) {
	p, c := newPlugin(t.TempDir())
	c.Args = "ALLOCNET_KEEP_ADDRESSES=true;keepAddresses=true"
	c.Config = slices.Concat([]byte(`{"args": {"cni": {"keepAddresses": true, "allocnet": {"keepAddresses": true}}}, `), c.Config[1:])
	result, err := p.Add(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	previous, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Del(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	c.Config = slices.Concat([]byte(`{"prevResult": `), previous, []byte(", "), c.Config[1:])
	requireCode(t, "CHECK", p.Check(t.Context(), c), types.ErrInternal, "no lease")
}

// indexed knows the index of each allocation.
type indexed struct {
	Connection
	asked int
}

func (c *indexed) Index(context.Context, string, string) (int, error) {
	c.asked++
	return 7, nil
}

// TestKey: Nomad is asked for the index only of an allocation that gets a sticky address, and
// passes no key.
func TestKey(t *testing.T) {
	for name, test := range map[string]struct {
		sticky bool
		job    ipam.Job
		key    string
		asked  int
	}{
		"sticky":             {true, ipam.Job{Allocation: "a1"}, "7", 1},
		"not sticky":         {false, ipam.Job{Allocation: "a1"}, "", 0},
		"a key":              {true, ipam.Job{Allocation: "a1", Key: "main"}, "main", 0},
		"without allocation": {true, ipam.Job{}, "", 0},
	} {
		connection := &indexed{}
		c := &call{conf: &ipam.Config{Sticky: test.sticky}, connection: connection}
		job := test.job
		if err := c.setKey(t.Context(), &job); err != nil || job.Key != test.key || connection.asked != test.asked {
			t.Errorf("%s: key %q, %v, and %d questions, want %q and %d", name, job.Key, err, connection.asked, test.key, test.asked)
		}
	}
}
