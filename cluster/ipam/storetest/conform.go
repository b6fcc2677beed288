// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package storetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// Conform tests a store. Each call of open returns another one over the same entries, as
// another process has it.
func Conform(t *testing.T, open func(t *testing.T) ipam.Store) {
	t.Helper()
	for name, test := range map[string]func(*probe){
		"Missing": (*probe).missing, "Create": (*probe).create, "Update": (*probe).update, "Delete": (*probe).delete,
		"Recreated": (*probe).recreated, "List": (*probe).list, "ListIndex": (*probe).listIndex, "Many": (*probe).many,
		"Wait": (*probe).wait, "WaitEnds": (*probe).waitEnds, "Contents": (*probe).contents,
		"OneCreates": (*probe).oneCreates, "NoUpdateIsLost": (*probe).noUpdateIsLost, "Ended": (*probe).ended,
	} {
		t.Run(name, func(t *testing.T) {
			test(&probe{T: t, Store: open(t), other: open(t), prefix: "allocnet/ipam/1/" + strings.ToLower(rand.Text()) + "/"})
		})
	}
}

// probe is a store under test, with paths that no other test has.
type probe struct {
	*testing.T
	ipam.Store
	// other is the store as another process has it.
	other  ipam.Store
	prefix string
}

// want fails the test unless the error is of such a kind; nil: none.
func (p *probe) want(what string, err, kind error) {
	p.Helper()
	if !errors.Is(err, kind) {
		p.Errorf("%s: error %v, want %v", what, err, kind)
	}
}

func (p *probe) wantContent(path, content string, index uint64) {
	p.Helper()
	got, err := p.other.Get(p.Context(), path)
	if err != nil {
		p.Errorf("Get: %v", err)
	}
	if diff := cmp.Diff(ipam.Entry{Path: path, Content: []byte(content), Index: index}, got); diff != "" {
		p.Errorf("entry (-want +got):\n%s", diff)
	}
}

// mustCreate creates an entry and returns its index.
func (p *probe) mustCreate(path, content string) uint64 {
	p.Helper()
	index, err := p.Create(p.Context(), path, []byte(content))
	if err != nil || index == 0 {
		p.Fatalf("Create: index %d, %v", index, err)
	}
	return index
}

// mustList lists what is below the prefix now.
func (p *probe) mustList() ipam.Listing {
	p.Helper()
	listing, err := p.List(p.Context(), p.prefix, 0)
	if err != nil || listing.Index == 0 {
		p.Fatalf("List: index %d, %v", listing.Index, err)
	}
	return listing
}

func (p *probe) missing() {
	path := p.prefix + "b/0a5b0000-26"
	_, err := p.Get(p.Context(), path)
	p.want("Get", err, ipam.ErrNotFound)
	_, err = p.Update(p.Context(), path, []byte("x"), 7)
	p.want("Update", err, ipam.ErrConflict)
	_, err = p.Update(p.Context(), path, []byte("x"), 0)
	p.want("Update with the index 0", err, ipam.ErrConflict)
	p.want("Delete", p.Delete(p.Context(), path, 7), nil)
	p.want("Delete with the index 0", p.Delete(p.Context(), path, 0), nil)
	if listing := p.mustList(); len(listing.Entries) > 0 {
		p.Errorf("listed %v, want nothing", listing)
	}
}

func (p *probe) create() {
	path := p.prefix + "b/0a5b0000-26"
	index := p.mustCreate(path, "first")
	p.wantContent(path, "first", index)
	_, err := p.Create(p.Context(), path, []byte("second"))
	p.want("the same process", err, ipam.ErrConflict)
	_, err = p.other.Create(p.Context(), path, []byte("second"))
	p.want("another process", err, ipam.ErrConflict)
	p.wantContent(path, "first", index)
}

func (p *probe) update() {
	path := p.prefix + "b/0a5b0000-26"
	first := p.mustCreate(path, "first")
	second, err := p.other.Update(p.Context(), path, []byte("second"), first)
	if err != nil || second <= first {
		p.Fatalf("Update: index %d after %d, %v", second, first, err)
	}
	p.wantContent(path, "second", second)
	for _, index := range []uint64{0, first, second + 1} {
		_, err = p.Update(p.Context(), path, []byte("third"), index)
		p.want(fmt.Sprintf("Update with the index %d of %d", index, second), err, ipam.ErrConflict)
	}
	p.wantContent(path, "second", second)
}

func (p *probe) delete() {
	path := p.prefix + "b/0a5b0000-26"
	index := p.mustCreate(path, "first")
	for _, wrong := range []uint64{0, index - 1, index + 1} {
		p.want(fmt.Sprintf("Delete with the index %d of %d", wrong, index), p.Delete(p.Context(), path, wrong), ipam.ErrConflict)
	}
	p.wantContent(path, "first", index)
	p.want("Delete", p.other.Delete(p.Context(), path, index), nil)
	_, err := p.Get(p.Context(), path)
	p.want("Get", err, ipam.ErrNotFound)
	p.want("Delete again", p.Delete(p.Context(), path, index), nil)
}

// recreated: the index of an entry that was deleted is never used again.
func (p *probe) recreated() {
	path := p.prefix + "b/0a5b0000-26"
	first := p.mustCreate(path, "first")
	p.want("Delete", p.Delete(p.Context(), path, first), nil)
	second := p.mustCreate(path, "first")
	if second <= first {
		p.Errorf("index %d after %d", second, first)
	}
	_, err := p.Update(p.Context(), path, []byte("late"), first)
	p.want("late Update", err, ipam.ErrConflict)
	p.want("late Delete", p.Delete(p.Context(), path, first), ipam.ErrConflict)
	p.wantContent(path, "first", second)
}

func (p *probe) list() {
	var want []ipam.Entry
	for _, name := range []string{"a/0a5b0001", "b/0a5b0000-26", "b/0a5b0040-26", "pool"} {
		path := p.prefix + name
		want = append(want, ipam.Entry{Path: path, Index: p.mustCreate(path, name)})
	}
	p.mustCreate(strings.TrimSuffix(p.prefix, "/")+"x/pool", "a pool whose name begins with that of the other")
	for prefix, want := range map[string][]ipam.Entry{p.prefix: want, p.prefix + "b/": want[1:3], p.prefix + "b/0a5b00": want[1:3], p.prefix + "c/": nil} {
		got, err := p.other.List(p.Context(), prefix, 0)
		if diff := cmp.Diff(want, got.Entries); diff != "" || err != nil {
			p.Errorf("List of %s: %v (-want +got):\n%s", prefix, err, diff)
		}
	}
}

// listIndex: each change makes the listing's index grow.
func (p *probe) listIndex() {
	path := p.prefix + "b/0a5b0000-26"
	last := p.mustList().Index
	grown := func(what string) {
		p.Helper()
		now := p.mustList().Index
		if now <= last {
			p.Errorf("after %s the listing has the index %d, and %d before", what, now, last)
		}
		last = now
	}
	index := p.mustCreate(path, "first")
	grown("Create")
	index, err := p.Update(p.Context(), path, []byte("second"), index)
	p.want("Update", err, nil)
	grown("Update")
	p.want("Delete", p.Delete(p.Context(), path, index), nil)
	grown("Delete")
}

// many: a listing has all entries, however many the store gives in one answer.
func (p *probe) many() {
	const count = 40
	for i := range count {
		p.mustCreate(fmt.Sprintf("%sb/%08x-26", p.prefix, i*64), "x")
	}
	entries := p.mustList().Entries
	for i, entry := range entries {
		if want := fmt.Sprintf("%sb/%08x-26", p.prefix, i*64); entry.Path != want {
			p.Fatalf("entry %d is %s, want %s", i, entry.Path, want)
		}
	}
	if len(entries) != count {
		p.Errorf("%d entries, want %d", len(entries), count)
	}
}

// wait: a list with the index of an earlier one ends with the next change, of each kind.
func (p *probe) wait() {
	path := p.prefix + "b/0a5b0000-26"
	var index uint64
	var err error
	for _, change := range []struct {
		what string
		do   func()
	}{
		{"Create", func() { index, err = p.other.Create(p.Context(), path, []byte("first")) }},
		{"Update", func() { index, err = p.other.Update(p.Context(), path, []byte("second"), index) }},
		{"Delete", func() { index, err = 0, p.other.Delete(p.Context(), path, index) }},
	} {
		seen := p.mustList().Index
		answer := make(chan ipam.Listing, 1)
		go func() {
			listing := ipam.Listing{Index: seen}
			for range 3 { // a store may answer early
				if listing.Index != seen {
					break
				}
				listing, _ = p.List(p.Context(), p.prefix, seen) // an error has the index 0
			}
			answer <- listing
		}()
		change.do()
		p.want(change.what, err, nil)
		listing := <-answer
		for last := uint64(0); !shows(listing, path, index) && listing.Index != last; { // of another pool
			last = listing.Index
			listing, err = p.List(p.Context(), p.prefix, last)
			p.want("List", err, nil)
		}
		if !shows(listing, path, index) || listing.Index <= seen {
			p.Errorf("%s: the list that waited after %d is %v, want the entry with the index %d", change.what, seen, listing, index)
		}
	}
}

// shows reports whether a listing has the entry with the index; 0: not at all.
func shows(listing ipam.Listing, path string, index uint64) bool {
	for _, entry := range listing.Entries {
		if entry.Path == path {
			return entry.Index == index
		}
	}
	return index == 0
}

// waitEnds: waiting ends with the context.
func (p *probe) waitEnds() {
	ctx, cancel := context.WithTimeout(p.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := p.List(ctx, p.prefix, p.mustList().Index)
	p.want("List", err, ipam.ErrUnavailable)
}

// contents: any text comes back as it was.
func (p *probe) contents() {
	for i, content := range []string{"x", `{"version":1,"node":"a \"b\" <é> \\ 日本"}`, "line\nline\r\n\ttab", "null", strings.Repeat("0123456789abcdef", 1024)} {
		path := fmt.Sprintf("%sa/%08x", p.prefix, i)
		p.wantContent(path, content, p.mustCreate(path, content))
	}
}

// oneCreates: of several processes that create an entry at a time, one does.
func (p *probe) oneCreates() {
	const writers, rounds = 4, 5
	for round := range rounds {
		path := fmt.Sprintf("%sb/%08x-26", p.prefix, round*64)
		created := make([]error, writers)
		var group sync.WaitGroup
		for i, store := range []ipam.Store{p.Store, p.other, p.Store, p.other} {
			group.Go(func() { _, created[i] = store.Create(p.Context(), path, fmt.Append(nil, "writer ", i)) })
		}
		group.Wait()
		entry, err := p.Get(p.Context(), path)
		p.want("Get", err, nil)
		for i, err := range created {
			want := ipam.ErrConflict
			if bytes.Equal(entry.Content, fmt.Append(nil, "writer ", i)) {
				want = nil
			}
			p.want(fmt.Sprintf("writer %d, the entry being that of %q", i, entry.Content), err, want)
		}
	}
}

// noUpdateIsLost: of processes that add to the same entry at a time, each adds.
func (p *probe) noUpdateIsLost() {
	const writers, rounds = 4, 5
	path := p.prefix + "pool"
	p.mustCreate(path, "-")
	var group sync.WaitGroup
	for _, store := range []ipam.Store{p.Store, p.other, p.Store, p.other} {
		group.Go(func() {
			for range rounds {
				p.append(store, path)
			}
		})
	}
	group.Wait()
	entry, err := p.Get(p.Context(), path)
	if want := 1 + writers*rounds; err != nil || len(entry.Content) != want {
		p.Errorf("%d additions are there, want %d: %v", len(entry.Content), want, err)
	}
}

// append adds a character to an entry.
func (p *probe) append(store ipam.Store, path string) {
	for {
		entry, err := store.Get(p.Context(), path)
		if err == nil {
			_, err = store.Update(p.Context(), path, append(entry.Content, '+'), entry.Index)
		}
		if !errors.Is(err, ipam.ErrConflict) {
			p.want("Update", err, nil)
			return
		}
	}
}

// ended: a request whose context has ended has an unknown outcome.
func (p *probe) ended() {
	ctx, cancel := context.WithCancel(p.Context())
	cancel()
	path := p.prefix + "pool"
	_, err := p.Get(ctx, path)
	p.want("Get", err, ipam.ErrUnavailable)
	_, err = p.List(ctx, p.prefix, 0)
	p.want("List", err, ipam.ErrUnavailable)
	_, err = p.Create(ctx, path, []byte("x"))
	p.want("Create", err, ipam.ErrUnavailable)
	_, err = p.Update(ctx, path, []byte("x"), 1)
	p.want("Update", err, ipam.ErrUnavailable)
	p.want("Delete", p.Delete(ctx, path, 1), ipam.ErrUnavailable)
}
