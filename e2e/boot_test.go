// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// bootRequest is of three networks.
func bootRequest(id string) hook.Request {
	return hook.Request{ID: id, Primary: &selection.Element{Name: "web"}, Networks: []selection.Element{{Name: "storage"}, {Name: "vlan"}}}
}

// template is a record with the files that outlast a reboot.
type template struct {
	record state.Record
	cache  []string // of each attachment, libcni's
}

// newTemplate sets up an allocation, copies its files, and tears it down.
func newTemplate(t testing.TB, e *hook.Engine, store *state.Store) template {
	t.Helper()
	ctx := context.Background()
	if _, err := e.Setup(ctx, bootRequest("template")); err != nil {
		t.Fatal(err)
	}
	record, err := store.Read("template")
	if err != nil {
		t.Fatal(err)
	}
	made := template{record: record}
	for _, a := range record.Attachments {
		data, err := os.ReadFile(cacheFile(a))
		if err != nil {
			t.Fatal(err)
		}
		made.cache = append(made.cache, string(data))
	}
	if err := e.Teardown(ctx, "template"); err != nil {
		t.Fatal(err)
	}
	return made
}

func cacheFile(a state.Attachment) string {
	return filepath.Join("/var/lib/cni/results", fmt.Sprintf("%s-%s-%s", a.Network, a.ContainerID, a.Interface))
}

// leave puts the i-th dead allocation of an earlier boot on the host: record,
// leases and cached results.
func (m template) leave(t testing.TB, store *state.Store, i int) {
	t.Helper()
	id := fmt.Sprintf("dead-%04d", i)
	a := m.record.Allocation
	a.ID, a.BootID, a.Netns = id, "the boot before", filepath.Join(netns.DefaultDir, id)
	var attachments []state.Attachment
	for at, attachment := range m.record.Attachments {
		before := attachment.ContainerID
		attachment.ContainerID = strings.Replace(before, "template", id, 1)
		var result struct{ IPs []struct{ Address string } }
		if err := json.Unmarshal(attachment.Result, &result); err != nil {
			t.Fatal(err)
		}
		text, cache := string(attachment.Result), strings.ReplaceAll(m.cache[at], before, attachment.ContainerID)
		for _, ip := range result.IPs {
			address, bits, _ := strings.Cut(ip.Address, "/")
			own := address[:strings.LastIndexAny(address, ".:")]
			if strings.Contains(address, ":") {
				own += fmt.Sprintf(":%x", 0x1000+i)
			} else {
				own = fmt.Sprintf("%s.%d.%d", own[:strings.LastIndex(own, ".")], 128+i/250, i%250+2)
			}
			text = strings.ReplaceAll(text, address+"/"+bits, own+"/"+bits)
			cache = strings.ReplaceAll(cache, address+"/"+bits, own+"/"+bits)
			sandbox.WriteFile(t, filepath.Join("/var/lib/cni/networks", attachment.Network, own), attachment.ContainerID+"\r\n"+attachment.Interface)
		}
		attachment.Result = json.RawMessage(text)
		sandbox.WriteFile(t, cacheFile(attachment), cache)
		attachments = append(attachments, attachment)
	}
	lock, err := store.Lock(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	if err := lock.Begin(a, attachments); err != nil {
		t.Fatal(err)
	}
}

// TestFirstSetupOfABoot: the first set-up after a reboot frees the addresses of the
// earlier boot before it attaches.
func TestFirstSetupOfABoot(t *testing.T) {
	h := newHost(t)
	store, err := state.Open(h.state)
	if err != nil {
		t.Fatal(err)
	}
	e := h.engine(func(c *hook.Config) { c.Cleaner = &cleanup.Cleaner{} })
	left := newTemplate(t, e, store)
	for i := range 20 {
		left.leave(t, store, i)
	}
	if err := store.SetCleanedBoot("the boot before"); err != nil {
		t.Fatal(err)
	}
	h.attach("new", "--primary", "web")
	for i := range 20 { // a busy machine removes some of them after the set-up
		h.awaitGone(fmt.Sprintf("dead-%04d", i))
	}
	h.must("detach", "new")
}

// BenchmarkFirstSetupOfABoot compares the first set-up of a boot, with 500 dead
// allocations of three networks on record, with an ordinary one.
func BenchmarkFirstSetupOfABoot(b *testing.B) {
	conf := sandbox.WriteConf(b)
	sandbox.Warm(b, conf)
	const dead = 500
	dir := filepath.Join(b.TempDir(), "state")
	e, err := hook.NewEngine(hook.Config{ConfDirs: []string{conf}, PluginDirs: []string{sandbox.PluginDir()}, StateDir: dir, Cleaner: &cleanup.Cleaner{}})
	if err != nil {
		b.Fatal(err)
	}
	store, err := state.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	left := newTemplate(b, e, store)
	setup := func() float64 {
		begun := time.Now()
		if _, err := e.Setup(context.Background(), bootRequest("bench")); err != nil {
			b.Fatal(err)
		}
		took := ms(time.Since(begun))
		if err := e.Teardown(context.Background(), "bench"); err != nil {
			b.Fatal(err)
		}
		return took
	}
	var first, ordinary []float64
	for range 5 {
		for i := range dead {
			left.leave(b, store, i)
		}
		if err := store.SetCleanedBoot("the boot before"); err != nil {
			b.Fatal(err)
		}
		first = append(first, setup())
		if err := e.RetryPending(context.Background()); err != nil { // what a busy machine did not do in time
			b.Fatal(err)
		}
		if ids, err := store.IDs(); err != nil || len(ids) > 0 || e.RetryDue() {
			b.Fatalf("%d of %d are left, %v", len(ids), dead, err)
		}
		ordinary = append(ordinary, setup())
	}
	for b.Loop() { // measured above
	}
	b.ReportMetric(median(first), "first-add-ms")
	b.ReportMetric(median(ordinary), "ordinary-add-ms")
	b.ReportMetric(0, "ns/op")
}
