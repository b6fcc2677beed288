// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package remove

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/state"
)

func cacheOf(t *testing.T, id string) *operation.Operation {
	t.Helper()
	return operation.NewOperation(&config.Config{CacheDir: t.TempDir(), Logger: hclog.NewNullLogger()}, nil, state.Record{Allocation: state.Allocation{ID: id}})
}

// primaryOf returns an attachment that has the allocation's own container ID.
func primaryOf(id, iface string) state.Attachment {
	return state.Attachment{Network: "web", Interface: iface, Batch: onrecord.SetupBatch, ContainerID: id, ConfList: []byte(`{"cniVersion": "1.0.0", "name": "web", "plugins": [{"type": "p"}]}`), Result: []byte(`{}`)}
}

// TestCacheOfAnother: the names of libcni's files can be those of others.
func TestCacheOfAnother(t *testing.T) {
	victim := cacheOf(t, "a-1")
	if err := victim.Config.Cache().Write(primaryOf("a-1", "eth0"), victim.Record.Allocation.Netns); err != nil {
		t.Fatal(err)
	}
	attacker := operation.NewOperation(victim.Config, victim.Store, state.Record{Allocation: state.Allocation{ID: "a"}})
	var refused *plan.RequestError
	if err := attacker.Config.Cache().RequireOwn(primaryOf("a", "1-eth0")); !errors.As(err, &refused) || refused.Value != "1-eth0" {
		t.Errorf("the other's file is taken: %v", err)
	}
	list, err := onrecord.List(primaryOf("a", "1-eth0"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Del(t.Context(), attacker, primaryOf("a", "1-eth0"), list, "", inspect.Gone); !errors.As(err, &refused) {
		t.Errorf("DEL with the other's result: %v", err)
	}
	for name, o := range map[string]*operation.Operation{"one's own": victim, "without a record": cacheOf(t, "a")} {
		if err := o.Config.Cache().RequireOwn(primaryOf(o.Record.Allocation.ID, "eth0")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCacheLinks are not written through, by us or by libcni.
func TestCacheLinks(t *testing.T) {
	o := cacheOf(t, "a")
	a := primaryOf("a", "eth0")
	path, victim := filepath.Join(o.Config.CacheDir, "results", onrecord.CacheName(a)), filepath.Join(t.TempDir(), "victim")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{path, filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")} {
		if err := os.Symlink(victim, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.Config.Cache().RequireOwn(a); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("libcni would write to where the link leads")
	}
	if err := o.Config.Cache().Write(a, o.Record.Allocation.Netns); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(victim); err == nil {
		t.Error("a link was followed")
	}
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the cache is %v, %v", info, err)
	}
}

// TestRecalledContainerIDs: libcni's cache has the attachments under different
// container IDs, and another runtime's and another allocation's beside them.
func TestRecalledContainerIDs(t *testing.T) {
	o := cacheOf(t, "a")
	write := func(o *operation.Operation, containerID, iface, config string) {
		t.Helper()
		a := primaryOf(containerID, iface)
		a.ConfList = []byte(config)
		if err := o.Config.Cache().Write(a, o.Record.Allocation.Netns); err != nil {
			t.Fatal(err)
		}
	}
	const ours, another = `{"allocnet": {"attachment": {"index": 1, "batch": {"kind": "setup"}}}}`, `{}`
	const incomplete = `{"allocnet": {"attachment": {"index": 1}}}`
	write(o, "a", "eth0", ours)
	write(o, "a.allocnet.net1", "net1", ours)
	write(o, "a", "eth1", another)
	write(o, "a", "eth2", incomplete)
	write(o, "a-b", "eth0", ours)
	write(o, "a-b.allocnet.net1", "net1", ours)
	write(o, "ab", "eth0", ours)
	if err := os.WriteFile(filepath.Join(o.Config.CacheDir, "results", "web-a-net7"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := o.LoadFromCache(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range o.Record.Attachments {
		got = append(got, a.ContainerID+" "+a.Interface+" "+a.Network)
	}
	if want := []string{"a eth0 web", "a.allocnet.net1 net1 web"}; !slices.Equal(got, want) {
		t.Errorf("recalled %q, want %q", got, want)
	}
	empty := operation.NewOperation(&config.Config{CacheDir: t.TempDir(), Logger: hclog.NewNullLogger()}, nil, state.Record{Allocation: state.Allocation{ID: "a"}})
	if err := empty.LoadFromCache(); err != nil || len(empty.Record.Attachments) != 0 {
		t.Errorf("without a cache: %v, %v", empty.Record.Attachments, err)
	}
}
