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
	"github.com/allocnet/allocnet/state"
)

func cacheOf(t *testing.T, id string) *operation {
	t.Helper()
	return newOperation(&Config{CacheDir: t.TempDir(), Logger: hclog.NewNullLogger()}, nil, state.Record{Allocation: state.Allocation{ID: id}})
}

// primaryOf returns an attachment that has the allocation's own container ID.
func primaryOf(id, iface string) state.Attachment {
	return state.Attachment{Network: "web", Interface: iface, Batch: onrecord.SetupBatch, ContainerID: id, ConfList: []byte(`{"cniVersion": "1.0.0", "name": "web", "plugins": [{"type": "p"}]}`), Result: []byte(`{}`)}
}

// TestCacheOfAnother: the names of libcni's files can be those of others.
func TestCacheOfAnother(t *testing.T) {
	victim := cacheOf(t, "a-1")
	if err := victim.config.cache().Write(primaryOf("a-1", "eth0"), victim.record.Allocation.Netns); err != nil {
		t.Fatal(err)
	}
	attacker := newOperation(victim.config, victim.store, state.Record{Allocation: state.Allocation{ID: "a"}})
	var refused *RequestError
	if err := attacker.config.cache().RequireOwn(primaryOf("a", "1-eth0")); !errors.As(err, &refused) || refused.Value != "1-eth0" {
		t.Errorf("the other's file is taken: %v", err)
	}
	if _, err := attacker.del(t.Context(), primaryOf("a", "1-eth0"), "", inspect.Gone); !errors.As(err, &refused) {
		t.Errorf("DEL with the other's result: %v", err)
	}
	for name, o := range map[string]*operation{"one's own": victim, "without a record": cacheOf(t, "a")} {
		if err := o.config.cache().RequireOwn(primaryOf(o.record.Allocation.ID, "eth0")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCacheLinks are not written through, by us or by libcni.
func TestCacheLinks(t *testing.T) {
	o := cacheOf(t, "a")
	a := primaryOf("a", "eth0")
	path, victim := filepath.Join(o.config.CacheDir, "results", onrecord.CacheName(a)), filepath.Join(t.TempDir(), "victim")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{path, filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")} {
		if err := os.Symlink(victim, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.config.cache().RequireOwn(a); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("libcni would write to where the link leads")
	}
	if err := o.config.cache().Write(a, o.record.Allocation.Netns); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(victim); err == nil {
		t.Error("a link was followed")
	}
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the cache is %v, %v", info, err)
	}
}
