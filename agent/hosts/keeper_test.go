// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hosts

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/networkstatus"
	"github.com/allocnet/allocnet/state"
)

// host is what a keeper looks at.
type host struct {
	*testing.T
	dir         string
	allocations []*hook.Allocation
	// unreadable are IDs whose records cannot be read.
	unreadable []string
	broken     error
	remotes    []isolation.Member
	indexes    map[string]int
	version    int
	// listed counts how often the records were read.
	listed int
	*Keeper
	// mutex guards what add changes while the keeper runs.
	mutex sync.Mutex
}

func newHost(t *testing.T) *host {
	h := &host{T: t, dir: t.TempDir(), indexes: map[string]int{}}
	h.Keeper = New(Config{
		AllocDir: func(context.Context) (string, error) { return h.dir, nil }, Allocations: h.list, Indexes: func() map[string]int { return locked(h, &h.indexes) },
		Version: func() (string, error) { return fmt.Sprint(locked(h, &h.version)), nil },
		Remotes: func() ([]isolation.Member, error) { return h.remotes, nil },
	})
	return h
}

// locked reads one of the host's fields.
func locked[T any](h *host, field *T) T {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return *field
}

func (h *host) list(context.Context) iter.Seq2[*hook.Allocation, error] {
	h.listed++
	return func(yield func(*hook.Allocation, error) bool) {
		for _, a := range locked(h, &h.allocations) {
			if !yield(a, nil) {
				return
			}
		}
		for _, id := range h.unreadable {
			if !yield(nil, &state.UnreadableError{ID: id, Err: errors.New("damaged")}) {
				return
			}
		}
		if h.broken != nil {
			yield(nil, h.broken)
		}
	}
}

// add attaches an allocation, whose number is that of its last character, to networks with an address each.
func (h *host) add(id, namespace, job string, addresses map[string]string) {
	h.Helper()
	a := &hook.Allocation{ID: id, Identity: allocation.Identity{Namespace: namespace, Job: job}}
	for network, address := range addresses {
		a.Attachments = append(a.Attachments, hook.Attachment{Network: network, Phase: state.Attached, Observed: hook.Observed{Addresses: []netip.Prefix{netip.MustParsePrefix(address)}}})
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.allocations = append(h.allocations, a)
	indexes := map[string]int{id: int(id[len(id)-1] - '0')}
	for id, index := range h.indexes {
		indexes[id] = index
	}
	h.indexes = indexes
	if err := os.MkdirAll(filepath.Join(h.dir, id, "alloc"), 0o755); err != nil {
		h.Fatal(err)
	}
	h.version++
}

func (h *host) path(id string) string {
	return filepath.Join(h.dir, id, "alloc", networkstatus.HostsFile)
}

// require has the keeper look, and compares the files of allocations without what each has. "none": there is none.
func (h *host) require(want map[string]string) {
	h.Helper()
	if err := errors.Join(h.look(h.Context()), h.unwritten); err != nil {
		h.Error(err)
	}
	for id, text := range want {
		data, err := os.ReadFile(h.path(id))
		got, ok := strings.CutPrefix(string(data), "127.0.0.1 localhost\n::1 localhost\n")
		if got = strings.TrimSuffix(strings.ReplaceAll(got, "\n", ", "), ", "); err != nil {
			got, ok = "none", errors.Is(err, os.ErrNotExist)
		}
		if !ok || got != text {
			h.Errorf("%s has %q, %v, want %q", id, got, err, text)
		}
	}
}

// TestFiles: an allocation finds those of its namespace on its networks, on all hosts, and no other ones.
func TestFiles(t *testing.T) {
	h := newHost(t)
	h.add("a-0", "default", "web", map[string]string{"front": "10.0.0.2/16", "back": "10.1.0.2/16"})
	h.add("b-1", "default", "db", map[string]string{"back": "fd00::3/64"})
	h.add("c-0", "other", "web", map[string]string{"front": "10.0.0.4/16", "back": "10.1.0.4/16"})
	h.add("d-0", "default", "", map[string]string{"back": "10.1.0.5/16"})
	three := uint32(3)
	address := func(a string) []netip.Addr { return []netip.Addr{netip.MustParseAddr(a)} }
	h.remotes = []isolation.Member{
		{Network: "back", Namespace: "default", Job: "db", Index: &three, Addresses: address("10.1.9.9")},
		{Network: "back", Namespace: "other", Job: "db", Index: &three, Addresses: address("10.1.9.10")},
		{Network: "far", Namespace: "default", Job: "db", Index: &three, Addresses: address("10.7.9.9")},
		{Network: "back", Namespace: "default", Job: "db", Addresses: address("10.1.9.11")},
		{Network: "back", Index: &three, Addresses: address("10.1.9.12")},
	}
	back := "fd00::3 db-1.back, 10.1.9.9 db-3.back, 10.1.0.2 web-0.back"
	h.require(map[string]string{
		"a-0": back + ", 10.0.0.2 web-0.front", "b-1": back,
		"c-0": "10.1.9.10 db-3.back, 10.1.0.4 web-0.back, 10.0.0.4 web-0.front", "d-0": "none",
	})
}

// TestChanges: files follow the host, and are written only when they change.
func TestChanges(t *testing.T) {
	h := newHost(t)
	h.add("a-0", "default", "web", map[string]string{"net": "10.0.0.2/16"})
	h.add("b-0", "default", "db", map[string]string{"other": "10.9.0.2/16"})
	h.require(map[string]string{"a-0": "10.0.0.2 web-0.net", "b-0": "10.9.0.2 db-0.other"})
	mark := func(id string) {
		if err := os.WriteFile(h.path(id), []byte("kept"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	isMarked := func(id string) bool { data, _ := os.ReadFile(h.path(id)); return string(data) == "kept" }
	mark("b-0")
	listed := h.listed
	h.require(nil)
	if h.listed != listed {
		t.Error("the records are read again without a change")
	}
	h.add("c-1", "default", "web", map[string]string{"net": "10.0.0.3/16"})
	h.require(map[string]string{"a-0": "10.0.0.2 web-0.net, 10.0.0.3 web-1.net", "c-1": "10.0.0.2 web-0.net, 10.0.0.3 web-1.net"})
	if !isMarked("b-0") {
		t.Error("a file that has not changed is written")
	}
	h.indexes = map[string]int{"a-0": 0, "b-0": 0} // without a change of the records
	h.version++
	h.require(map[string]string{"a-0": "10.0.0.2 web-0.net", "c-1": "10.0.0.2 web-0.net"})
	h.allocations = h.allocations[1:]
	h.version++
	h.require(map[string]string{"a-0": "none", "c-1": ""})
	h.allocations[1].Attachments[0].Phase = state.Deleting
	h.version++
	h.require(map[string]string{"c-1": ""})
}

// TestUnknown: what cannot be read is not gone, and is read again.
func TestUnknown(t *testing.T) {
	h := newHost(t)
	h.add("a-0", "default", "web", map[string]string{"net": "10.0.0.2/16"})
	h.add("b-1", "default", "web", map[string]string{"net": "10.0.0.3/16"})
	both := map[string]string{"a-0": "10.0.0.2 web-0.net, 10.0.0.3 web-1.net", "b-1": "10.0.0.2 web-0.net, 10.0.0.3 web-1.net"}
	h.require(both)
	gone := h.allocations[1]
	h.allocations, h.unreadable = h.allocations[:1], []string{"b-1", "never read"}
	h.version++
	h.require(both)
	h.allocations, h.unreadable, h.broken = nil, nil, errors.New("no directory")
	h.version++
	for range 2 { // also without a further change
		if err := h.look(t.Context()); !errors.Is(err, h.broken) {
			t.Errorf("%v, want that the records cannot be listed", err)
		}
	}
	h.broken = nil
	h.allocations = []*hook.Allocation{gone}
	h.require(map[string]string{"a-0": "none", "b-1": "10.0.0.3 web-1.net"})
}

// TestHostile: what a task makes of its directory keeps no other one from its file, and no file elsewhere is written.
func TestHostile(t *testing.T) {
	h := newHost(t)
	h.add("a-0", "default", "web", map[string]string{"net": "10.0.0.2/16"})
	h.add("b-1", "default", "web", map[string]string{"net": "10.0.0.3/16"})
	h.add("c-2", "default", "web", map[string]string{"net": "fe80::3/64"})
	h.add("d-3", "default", "web", map[string]string{"net": "10.0.0.5/16"})
	victim := filepath.Join(t.TempDir(), "victim")
	if err := errors.Join(os.WriteFile(victim, []byte("precious"), 0o600), os.Symlink(victim, h.path("a-0")), os.MkdirAll(filepath.Join(h.path("b-1"), "full"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Dir(h.path("c-2"))); err != nil { // the client has removed it
		t.Fatal(err)
	}
	if err := errors.Join(os.RemoveAll(filepath.Dir(h.path("d-3"))), os.WriteFile(filepath.Dir(h.path("d-3")), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := h.look(t.Context()); err != nil || h.unwritten == nil || !strings.Contains(h.unwritten.Error(), "d-3") {
		t.Errorf("%v, %v, want the directory that is a file", err, h.unwritten)
	}
	if err := errors.Join(os.Remove(filepath.Dir(h.path("d-3"))), os.Mkdir(filepath.Dir(h.path("d-3")), 0o755)); err != nil {
		t.Fatal(err)
	}
	h.version++
	all := "10.0.0.2 web-0.net, 10.0.0.3 web-1.net, 10.0.0.5 web-3.net"
	h.require(map[string]string{"a-0": all, "b-1": all, "c-2": "none", "d-3": all})
	if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
		t.Errorf("what a link led to is now %q, %v", text, err)
	}
}

// TestRun: changes that come together are one round, and the files stay when the agent ends.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.dir = dir
		h.add("a-0", "default", "web", map[string]string{"net": "10.0.0.2/16"})
		ctx, stop := context.WithCancel(t.Context())
		go h.Keeper.Run(ctx)
		synctest.Wait()
		h.add("b-1", "default", "web", map[string]string{"net": "10.0.0.3/16"})
		h.add("c-2", "default", "web", map[string]string{"net": "10.0.0.4/16"})
		time.Sleep(leastPause)
		synctest.Wait()
		if h.listed != 2 {
			t.Errorf("the records were read %d times, want twice", h.listed)
		}
		stop()
		synctest.Wait()
		h.require(map[string]string{"a-0": "10.0.0.2 web-0.net, 10.0.0.3 web-1.net, 10.0.0.4 web-2.net"})
	})
}

// TestPause: what keeping the files costs is bounded, whatever happens on the host.
func TestPause(t *testing.T) {
	h := newHost(t)
	h.add("a-0", "default", "web", map[string]string{"net": "10.0.0.2/16"})
	h.require(nil)
	if data, err := os.ReadFile(h.path("a-0")); err != nil || h.bytes != len(data) {
		t.Errorf("%d bytes are counted, of %d, %v", h.bytes, len(data), err)
	}
	if h.require(nil); h.bytes != 0 {
		t.Errorf("%d bytes are counted without a change", h.bytes)
	}
	for _, test := range []struct {
		took  time.Duration
		bytes int
		err   error
		want  time.Duration
	}{
		{0, 0, nil, time.Second}, {time.Millisecond, 1000, nil, time.Second}, {300 * time.Millisecond, 1000, nil, 6 * time.Second},
		{0, 40 << 20, nil, 10 * time.Second}, {0, 0, errors.New("disk full"), 10 * time.Second}, {time.Second, 0, errors.New("disk full"), 20 * time.Second},
	} {
		if got := pauseAfter(test.took, test.bytes, test.err); got != test.want {
			t.Errorf("after %s, %d bytes and %v: %s, want %s", test.took, test.bytes, test.err, got, test.want)
		}
	}
}

// TestDeepDirectory: a directory at the name that is deeper than a process may have open files, or has no end, takes no longer than another one.
func TestDeepDirectory(t *testing.T) {
	h := newHost(t)
	h.add("a-0", "default", "web", map[string]string{"net": "10.0.0.2/16"})
	deep := func() {
		for _, name := range []string{networkstatus.HostsFile, "." + networkstatus.HostsFile + ".new"} {
			if err := os.MkdirAll(filepath.Join(filepath.Dir(h.path("a-0")), name, "deep"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	deep()
	h.require(map[string]string{"a-0": "10.0.0.2 web-0.net"})
	if err := os.Remove(h.path("a-0")); err != nil {
		t.Fatal(err)
	}
	deep()
	h.allocations = nil
	h.version++
	h.require(map[string]string{"a-0": "none"})
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(h.path("a-0")), networkstatus.HostsFile+".*", "deep")); err != nil || len(left) != 2 {
		t.Errorf("left: %q, %v, want that nothing was removed inside", left, err)
	}
}

// TestUnwritten: a file that cannot be written is tried again, and delays no other one.
func TestUnwritten(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.dir = dir
		h.add("a-0", "default", "web", map[string]string{"net": "10.0.0.2/16"})
		shared := filepath.Dir(h.path("a-0"))
		if err := errors.Join(os.Remove(shared), os.WriteFile(shared, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		go h.Keeper.Run(ctx)
		synctest.Wait()
		h.add("b-1", "default", "web", map[string]string{"net": "10.0.0.3/16"})
		time.Sleep(leastPause)
		synctest.Wait()
		if _, err := os.Stat(h.path("b-1")); err != nil {
			t.Errorf("after a second: %v, want the names of the one whose directory is well", err)
		}
		if err := errors.Join(os.Remove(shared), os.Mkdir(shared, 0o755)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(failedPause)
		synctest.Wait()
		stop()
		synctest.Wait()
		if h.listed != 3 {
			t.Errorf("the records were read %d times, want three times", h.listed)
		}
		h.require(map[string]string{"a-0": "10.0.0.2 web-0.net, 10.0.0.3 web-1.net", "b-1": "10.0.0.2 web-0.net, 10.0.0.3 web-1.net"})
	})
}

// TestNoAnswerYet: after a start of the agent what files say stays until Nomad has answered.
func TestNoAnswerYet(t *testing.T) {
	h := newHost(t)
	h.add("a-0", "default", "web", map[string]string{"net": "10.0.0.2/16"})
	h.add("b-1", "default", "web", map[string]string{"net": "10.0.0.3/16"})
	both := map[string]string{"a-0": "10.0.0.2 web-0.net, 10.0.0.3 web-1.net", "b-1": "10.0.0.2 web-0.net, 10.0.0.3 web-1.net"}
	h.require(both)
	indexes := h.indexes
	h.indexes, h.Keeper = nil, New(h.c)
	h.require(both)
	h.indexes, h.allocations = indexes, h.allocations[1:]
	h.require(map[string]string{"b-1": "10.0.0.3 web-1.net"})
}

// TestFailedRound: what a round has not done for an error is done by the next one, also where only the number of an allocation has changed.
func TestFailedRound(t *testing.T) {
	h := newHost(t)
	h.add("a-0", "default", "web", map[string]string{"net": "10.0.0.2/16"})
	h.require(map[string]string{"a-0": "10.0.0.2 web-0.net"})
	h.indexes = map[string]int{"a-0": 7}
	h.version++
	allocDir := h.c.AllocDir
	h.c.AllocDir = func(context.Context) (string, error) { return "", errors.New("no answer") }
	if err := h.look(t.Context()); err == nil {
		t.Error("a failure is not told")
	}
	h.c.AllocDir = allocDir
	h.require(map[string]string{"a-0": "10.0.0.2 web-7.net"})
}

// TestTold: the files with the attachments of an allocation follow its addresses, and none is made where nothing has written one, or for
// what has ended.
func TestTold(t *testing.T) {
	h := newHost(t)
	h.add("a1", "default", "db", map[string]string{"lan": "10.0.0.5/24"})
	h.add("b2", "default", "web", map[string]string{"lan": "10.0.0.6/24"})
	file := func(id, name string) string { return filepath.Join(h.dir, id, "alloc", name) }
	for _, name := range []string{networkstatus.File, networkstatus.EnvFile} {
		if err := os.WriteFile(file("a1", name), []byte("[]"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	look := func(want string) {
		t.Helper()
		if err := errors.Join(h.look(t.Context()), h.unwritten); err != nil {
			t.Error(err)
		}
		for _, name := range []string{networkstatus.File, networkstatus.EnvFile} {
			if data, err := os.ReadFile(file("a1", name)); err != nil || !strings.Contains(string(data), want) {
				t.Errorf("%s: %q, %v, want %s", name, data, err, want)
			}
		}
		if _, err := os.Lstat(file("b2", networkstatus.File)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("of an allocation without files: %v", err)
		}
	}
	look("10.0.0.5")
	if err := os.WriteFile(file("a1", networkstatus.EnvFile), []byte("10.0.0.5, by the task"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.version++
	look("10.0.0.5") // what a task writes stays, until something has changed
	if data, err := os.ReadFile(file("a1", networkstatus.EnvFile)); err != nil || string(data) != "10.0.0.5, by the task" {
		t.Errorf("%q, %v", data, err)
	}
	h.allocations[0].Attachments[0].Addresses = []netip.Prefix{netip.MustParsePrefix("10.0.0.77/24")}
	h.version++
	look("10.0.0.77")
	h.allocations = h.allocations[1:]
	h.version++
	look("10.0.0.77")
	if len(h.told) != 0 {
		t.Errorf("known are files of %v", h.told)
	}
}

// TestToldWhole: while an allocation gets another attachment, or one again, its files stay; what is to be removed is not in them.
func TestToldWhole(t *testing.T) {
	h := newHost(t)
	h.add("a1", "default", "db", map[string]string{"lan": "10.0.0.5/24"})
	file := filepath.Join(h.dir, "a1", "alloc", networkstatus.EnvFile)
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.WriteFile(filepath.Join(filepath.Dir(file), networkstatus.File), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	told := func() string {
		t.Helper()
		h.version++
		data, unread := os.ReadFile(file)
		if err := errors.Join(h.look(t.Context()), h.unwritten, unread); err != nil {
			t.Error(err)
		}
		after, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		if string(data) == string(after) {
			return "same"
		}
		return string(after)
	}
	told()
	a := h.allocations[0]
	lan := a.Attachments[0]
	for _, step := range []struct {
		attachments []hook.Attachment
		want        string
	}{
		{[]hook.Attachment{lan, {Network: "backup", Phase: state.Adding}}, "same"},
		{[]hook.Attachment{{Network: "lan", Phase: allocation.Reattaching}}, "same"},
		{[]hook.Attachment{{Network: "lan", Phase: state.Deleting}}, "same"},
		{[]hook.Attachment{lan, {Network: "backup", Phase: state.Pending}}, "same"},
		{[]hook.Attachment{lan, {Network: "backup", Phase: state.Attached}}, "INTERFACE_backup"},
	} {
		a.Attachments = step.attachments
		if got := told(); got != step.want && !strings.Contains(got, step.want) {
			t.Errorf("%+v: %q, want %s", step.attachments, got, step.want)
		}
	}
}
