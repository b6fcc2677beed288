// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pool

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/hostid"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
)

// testStore counts requests, and fails if it is told to.
type testStore struct {
	ipam.Store
	reads, writes atomic.Int64
	// err is the answer to all requests. Nil: that of Store.
	err atomic.Pointer[error]
	// hangs: requests get no answer.
	hangs atomic.Bool
}

func newStore() *testStore { return &testStore{Store: &storetest.Fake{}} }

func (s *testStore) fail(err error) {
	if err == nil {
		s.err.Store(nil)
		return
	}
	s.err.Store(&err)
}

func (s *testStore) answer(ctx context.Context, count *atomic.Int64) error {
	count.Add(1)
	if s.hangs.Load() {
		<-ctx.Done()
		return fmt.Errorf("%w: %w", ipam.ErrUnavailable, ctx.Err())
	}
	if err := s.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *testStore) Get(ctx context.Context, path string) (ipam.Entry, error) {
	if err := s.answer(ctx, &s.reads); err != nil {
		return ipam.Entry{}, err
	}
	return s.Store.Get(ctx, path)
}

func (s *testStore) List(ctx context.Context, prefix string, after uint64) (ipam.Listing, error) {
	if err := s.answer(ctx, &s.reads); err != nil {
		return ipam.Listing{}, err
	}
	return s.Store.List(ctx, prefix, after)
}

func (s *testStore) Create(ctx context.Context, path string, content []byte) (uint64, error) {
	if err := s.answer(ctx, &s.writes); err != nil {
		return 0, err
	}
	return s.Store.Create(ctx, path, content)
}

func (s *testStore) Update(ctx context.Context, path string, content []byte, index uint64) (uint64, error) {
	if err := s.answer(ctx, &s.writes); err != nil {
		return 0, err
	}
	return s.Store.Update(ctx, path, content, index)
}

func (s *testStore) Delete(ctx context.Context, path string, index uint64) error {
	if err := s.answer(ctx, &s.writes); err != nil {
		return err
	}
	return s.Store.Delete(ctx, path, index)
}

// host is a host with a pool.
type host struct {
	testing.TB
	*Pool
	dir   string
	clock time.Time
	// options are for the next process.
	options Options
}

// newHost returns the host with a number. Its pool has the configuration, and paths of its own.
func newHost(t testing.TB, store ipam.Store, number int, config string) *host {
	t.Helper()
	h := &host{TB: t, dir: t.TempDir(), clock: time.Unix(1_800_000_000, 0)}
	c, err := ipam.Parse(fmt.Appendf(nil, `{"pool": "p", "dataDir": "%s/leases", "stateDir": "%s/state", %s}`, h.dir, h.dir, config))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(c.StateDir, "ipam")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "instance"), fmt.Appendf(nil, "%032x", number+1), 0o600); err != nil {
		t.Fatal(err)
	}
	id, err := hostid.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	self := id.Host
	self.NodeID, self.NodeName = fmt.Sprint("node", number), fmt.Sprint("name", number)
	h.options = Options{
		Config: c, Now: func() time.Time { return h.clock },
		Open: func() (ipam.Store, ipam.Host, error) { return store, self, nil },
	}
	h.restart()
	return h
}

// restart begins another process.
func (h *host) restart() { h.Pool = New(h.options) }

func owner(id string) ipam.Owner { return ipam.Owner{ContainerID: id, Interface: "eth0"} }

// add returns the addresses of a container, or the error.
func (h *host) add(id string) string {
	h.Helper()
	return h.request(ipam.Request{Owner: owner(id)})
}

func (h *host) request(r ipam.Request) string {
	h.Helper()
	assigned, err := h.Add(h.Context(), r)
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, a := range assigned {
		all = append(all, a.Address.Addr().String())
	}
	return strings.Join(all, " ")
}

func (h *host) requireAdd(id, want string) {
	h.Helper()
	if got := h.add(id); got != want {
		h.Errorf("%s gets %s, want %s", id, got, want)
	}
}

func (h *host) del(id string) {
	h.Helper()
	if err := h.Del(h.Context(), owner(id)); err != nil {
		h.Error(err)
	}
}

func (h *host) requireNo(err error) {
	h.Helper()
	if err != nil {
		h.Error(err)
	}
}
