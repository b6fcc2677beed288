// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/hook/internal/remove"
	"github.com/allocnet/allocnet/state"
)

func cacheOf(t *testing.T, id string) *operation.Operation {
	t.Helper()
	return operation.NewOperation(&Config{CacheDir: t.TempDir(), Logger: hclog.NewNullLogger()}, nil, state.Record{Allocation: state.Allocation{ID: id}})
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
	var refused *RequestError
	if err := attacker.Config.Cache().RequireOwn(primaryOf("a", "1-eth0")); !errors.As(err, &refused) || refused.Value != "1-eth0" {
		t.Errorf("the other's file is taken: %v", err)
	}
	if _, err := remove.Del(t.Context(), attacker, primaryOf("a", "1-eth0"), "", inspect.Gone); !errors.As(err, &refused) {
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
