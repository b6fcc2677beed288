// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

const prefix = "allocnet/ipam/1/e2e/"

// TestStore runs what leaves its server alone.
func TestStore(t *testing.T) {
	t.Parallel()
	s := start(t, "n1", "127.0.0.1")
	token, _ := s.token("pools")
	t.Run("Conforms", func(t *testing.T) {
		storetest.Conform(t, func(*testing.T) ipam.Store { return s.store(token) })
	})
	t.Run("StaleConforms", func(t *testing.T) { // the only server is the leader
		storetest.Conform(t, func(*testing.T) ipam.Store { return s.store(token).Stale() })
	})
	s.run(token, []test{
		{"Pages", (*server).pages}, {"Rights", (*server).rights}, {"Revoked", (*server).revoked}, {"Limits", (*server).limits}, {"Foreign", (*server).foreign},
		{"ClaimStorm", (*server).storm}, {"Allocations", (*server).allocations},
	})
}

// TestFaults restores a server, stops and kills it. It waits most of the time.
func TestFaults(t *testing.T) {
	t.Parallel()
	s := start(t, "n2", "127.0.0.2")
	token, _ := s.token("pools")
	s.run(token, []test{{"Restored", (*server).restored}, {"Stopped", (*server).stopped}, {"Killed", (*server).killed}})
}

// test is one of those that share a server.
type test struct {
	name string
	run  func(s *server, store ipam.Store)
}

func (s *server) run(token string, tests []test) {
	for _, test := range tests {
		s.Run(test.name, func(t *testing.T) {
			before := s.T
			defer func() { s.T = before }()
			s.T = t
			test.run(s, s.store(token))
		})
	}
}

func (s *server) want(what string, err, kind error, parts ...string) {
	s.Helper()
	if !errors.Is(err, kind) {
		s.Errorf("%s: error %v, want %v", what, err, kind)
	}
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			s.Errorf("%s: error %v, want %q in it", what, err, part)
		}
	}
}

func (s *server) mustCreate(store ipam.Store, path string) uint64 {
	s.Helper()
	index, err := store.Create(s.Context(), path, []byte("x"))
	if err != nil {
		s.Fatal(err)
	}
	return index
}

// pages: a list has more variables than Nomad gives in one answer.
func (s *server) pages(store ipam.Store) {
	const count = 1003
	var group errgroup.Group
	group.SetLimit(8)
	for i := range count {
		group.Go(func() error {
			_, err := store.Create(s.Context(), fmt.Sprintf("%spages/%04d", prefix, i), []byte("x"))
			return err
		})
	}
	s.want("create", group.Wait(), nil)
	listing, err := store.List(s.Context(), prefix+"pages/", 0)
	s.want("list", err, nil)
	for i, entry := range listing.Entries {
		if want := fmt.Sprintf("%spages/%04d", prefix, i); entry.Path != want || entry.Index == 0 {
			s.Fatalf("entry %d is %v, want %s", i, entry, want)
		}
	}
	if len(listing.Entries) != count {
		s.Errorf("%d entries, want %d", len(listing.Entries), count)
	}
}

// rights: a token that lacks one is refused, with the policy that it needs. Nothing is done.
func (s *server) rights(store ipam.Store) {
	path := prefix + "rights/pool"
	index := s.mustCreate(store, path)
	for name, capabilities := range map[string]string{"none": "", "reader": `"read", "list"`, "writer": `"write"`} {
		var policies []string
		if capabilities != "" {
			s.policy(name, `namespace "default" { variables { path "`+prefix+`*" { capabilities = [`+capabilities+`] } } }`)
			policies = []string{name}
		}
		s.policy("nothing", `node { policy = "read" }`)
		file, _ := s.token(append(policies, "nothing")...)
		limited := s.store(file)
		const policy = `variables { path "allocnet/ipam/*" { capabilities = ["read", "list", "write", "destroy"] } }`
		s.want(name+": delete", limited.Delete(s.Context(), path, index), ipam.ErrRefused, policy, s.address, path)
		if name != "writer" {
			_, err := limited.Create(s.Context(), prefix+"rights/b", []byte("x"))
			s.want(name+": create", err, ipam.ErrRefused, policy)
			_, err = limited.Update(s.Context(), path, []byte("y"), index)
			s.want(name+": update", err, ipam.ErrRefused, policy)
		}
		if name != "reader" {
			_, err := limited.Get(s.Context(), path)
			s.want(name+": get", err, ipam.ErrRefused, policy)
			_, err = limited.List(s.Context(), prefix+"rights/", 0)
			s.want(name+": list", err, ipam.ErrRefused, policy)
		}
	}
	// To the writer, which may not read, a conflict is one, too.
	file, _ := s.token("writer")
	_, err := s.store(file).Create(s.Context(), path, []byte("x"))
	s.want("the writer creates what exists", err, ipam.ErrConflict)
	if entry, err := store.Get(s.Context(), path); err != nil || entry.Index != index {
		s.Errorf("entry %v, %v, want it unchanged with the index %d", entry, err, index)
	}
}

// revoked: a token that is revoked is refused, also while a list waits, and a new one in the
// same file is used.
func (s *server) revoked(store ipam.Store) {
	path := prefix + "revoked/pool"
	s.mustCreate(store, path)
	file, accessor := s.token("pools")
	other, _ := s.token("pools")
	rotated := s.store(file)
	listing, err := rotated.List(s.Context(), prefix+"revoked/", 0)
	s.want("list", err, nil)
	waited := make(chan error, 1)
	go func() {
		var err error
		for after := listing.Index; err == nil && s.Context().Err() == nil; { // a wait may outlast the token
			listing, err = rotated.List(s.Context(), prefix+"revoked/", after)
		}
		waited <- err
	}()
	s.want("revoke", s.request(http.MethodDelete, "acl/token/"+accessor, nil, nil), nil)
	_, err = rotated.Get(s.Context(), path)
	s.want("get", err, ipam.ErrRefused)
	_, err = rotated.Create(s.Context(), prefix+"revoked/b", []byte("x"))
	s.want("create", err, ipam.ErrRefused)
	_, err = rotated.List(s.Context(), prefix+"revoked/", 0)
	s.want("list", err, ipam.ErrRefused)
	s.mustCreate(store, prefix+"revoked/c") // which ends the wait
	s.want("the list that waited", <-waited, ipam.ErrRefused)
	sandbox.WriteFile(s, file, sandbox.Run(s, "cat", other))
	_, err = rotated.Get(s.Context(), path)
	s.want("get with the new token", err, nil)
}

// limits: what Nomad does not store is refused: nothing was done. The largest variable and the
// longest path are stored.
func (s *server) limits(store ipam.Store) {
	const most, longest = 64<<10 - len("entry"), 128
	pad := func(path string, length int) string { return path + strings.Repeat("a", length-len(path)) }
	for _, refused := range []struct {
		path string
		size int
	}{{prefix + "limits/pool", most + 1}, {prefix + "a.b", 1}, {pad(prefix, longest+1), 1}} {
		_, err := store.Create(s.Context(), refused.path, []byte(strings.Repeat("x", refused.size)))
		s.want(refused.path, err, ipam.ErrRefused)
		_, err = store.Get(s.Context(), prefix+"limits/pool")
		s.want("get", err, ipam.ErrNotFound)
	}
	_, err := store.Create(s.Context(), pad(prefix, longest), []byte(strings.Repeat("x", most)))
	s.want("the largest", err, nil)
}

// foreign: a variable that another program has written is an entry without content.
func (s *server) foreign(store ipam.Store) {
	path := prefix + "foreign/pool"
	s.want("put", s.request(http.MethodPut, "var/"+path, map[string]any{"Items": map[string]string{"password": "x"}}, nil), nil)
	entry, err := store.Get(s.Context(), path)
	if s.want("get", err, nil); len(entry.Content) > 0 || entry.Index == 0 {
		s.Errorf("entry %v, want one without content", entry)
	}
	_, err = store.Create(s.Context(), path, []byte("x"))
	s.want("create", err, ipam.ErrConflict)
}

// restored: after a snapshot was restored, the index of a list is below one that was seen, a
// list that waits ends within its time, and no index of before is valid.
func (s *server) restored(store ipam.Store) {
	kept, lost, changed := prefix+"restored/kept", prefix+"restored/lost", prefix+"restored/changed"
	keptIndex, first := s.mustCreate(store, kept), s.mustCreate(store, changed)
	var snapshot []byte
	s.want("save", s.request(http.MethodGet, "operator/snapshot", nil, &snapshot), nil)
	lostIndex := s.mustCreate(store, lost)
	second, err := store.Update(s.Context(), changed, []byte("y"), first)
	s.want("update", err, nil)
	before, err := store.List(s.Context(), prefix+"restored/", 0)
	s.want("list", err, nil)
	s.want("restore", s.request(http.MethodPut, "operator/snapshot", snapshot, nil), nil)
	after, err := store.List(s.Context(), prefix+"restored/", before.Index)
	if s.want("list", err, nil); after.Index >= before.Index || len(after.Entries) != 2 {
		s.Errorf("listing %v after %v, want two entries and a lower index", after, before)
	}
	if entry, err := store.Get(s.Context(), kept); err != nil || entry.Index != keptIndex {
		s.Errorf("%v, %v, want it as it was with the index %d", entry, err, keptIndex)
	}
	_, err = store.Get(s.Context(), lost)
	s.want("get what was lost", err, ipam.ErrNotFound)
	_, err = store.Update(s.Context(), changed, []byte("z"), second)
	s.want("update with an index of before", err, ipam.ErrConflict)
	if index := s.mustCreate(store, lost); index <= lostIndex {
		s.Errorf("created again with the index %d, and %d before", index, lostIndex)
	}
}

// stopped: while the server hangs, each request ends after 5 seconds, with its address.
func (s *server) stopped(store ipam.Store) {
	resume := s.Pause()
	defer resume()
	var group sync.WaitGroup
	for what, request := range map[string]func() error{
		"get":    func() error { _, err := store.Get(s.Context(), prefix+"pool"); return err },
		"list":   func() error { _, err := store.List(s.Context(), prefix, 0); return err },
		"create": func() error { _, err := store.Create(s.Context(), prefix+"late/pool", []byte("x")); return err },
	} {
		group.Go(func() { s.want(what, request(), ipam.ErrUnavailable, s.address, "no answer within 5s") })
	}
	group.Wait()
	resume()
	// The outcome was unknown. Now it is known, whichever it is.
	_, err := store.Create(s.Context(), prefix+"late/pool", []byte("x"))
	if err != nil && !errors.Is(err, ipam.ErrConflict) {
		s.Errorf("create again: %v", err)
	}
	entry, err := store.Get(s.Context(), prefix+"late/pool")
	if s.want("get", err, nil); string(entry.Content) != "x" {
		s.Errorf("entry %v", entry)
	}
}

// killed: a request to a server that is not there fails at once, and all entries are there when
// it has started again.
func (s *server) killed(store ipam.Store) {
	path := prefix + "killed/pool"
	index := s.mustCreate(store, path)
	s.Signal(unix.SIGKILL)
	_, err := store.Get(s.Context(), path)
	s.want("get", err, ipam.ErrUnavailable, s.address, "connection refused")
	s.Start()
	s.Await("the entry is there", func() bool {
		entry, err := store.Get(s.Context(), path)
		if err == nil && entry.Index != index || errors.Is(err, ipam.ErrNotFound) {
			s.Fatalf("entry %v, %v, want the index %d", entry, err, index)
		}
		return err == nil
	})
}
