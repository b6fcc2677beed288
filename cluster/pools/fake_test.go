// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pools

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
)

// fakePool counts the calls, and fails where the test says so.
type fakePool struct {
	mu       sync.Mutex
	calls    map[string]int
	inFlight int
	errs     map[string]error
	hang     map[string]bool
	usage    pool.Usage
	verified pool.Verified
	overlaps int
	// adopting is for how many calls there is more to adopt.
	adopting int
}

func (f *fakePool) Adopting() (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.adopting--
	return f.adopting >= 0, nil
}

func (f *fakePool) call(ctx context.Context, name string) error {
	f.mu.Lock()
	if f.calls == nil {
		f.calls = map[string]int{}
	}
	f.calls[name]++
	if f.inFlight++; f.inFlight > 1 {
		f.overlaps++
	}
	err, hang := f.errs[name], f.hang[name]
	f.mu.Unlock()
	if hang {
		<-ctx.Done()
		err = context.Cause(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inFlight--
	return err
}

func (f *fakePool) fail(name string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.errs == nil {
		f.errs = map[string]error{}
	}
	f.errs[name] = err
}

func (f *fakePool) called(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[name]
}

func (f *fakePool) Verify(ctx context.Context, _ uint64) (pool.Verified, error) {
	return f.verified, f.call(ctx, "verify")
}

func (f *fakePool) Maintain(ctx context.Context) (pool.Maintained, error) {
	return pool.Maintained{Claimed: []ipam.Block{netip.MustParsePrefix("10.91.0.64/26")}}, f.call(ctx, "maintain")
}

func (f *fakePool) Adopt(ctx context.Context, inUse func(netip.Prefix) (bool, error)) ([]ipam.Block, []netip.Addr, error) {
	if used, err := inUse(netip.MustParsePrefix("10.91.0.64/26")); !used || err != nil {
		return nil, nil, errors.New("inUse is not the configured one")
	}
	return nil, nil, f.call(ctx, "adopt")
}

func (f *fakePool) Recover(ctx context.Context, always bool, used func() ([]netip.Addr, error)) ([]ipam.Block, error) {
	if addresses, err := used(); len(addresses) != 1 || err != nil {
		return nil, errors.New("used is not the configured one")
	}
	if always {
		return nil, f.call(ctx, "recover always")
	}
	return nil, f.call(ctx, "recover")
}

func (f *fakePool) Reclaim(ctx context.Context) ([]ipam.Block, []netip.Addr, error) {
	return nil, nil, f.call(ctx, "reclaim")
}

func (f *fakePool) Usage(ctx context.Context) (pool.Usage, error) {
	return f.usage, f.call(ctx, "usage")
}

// host is a host with pools.
type host struct {
	*Pools
	pools map[string]*fakePool

	mu      sync.Mutex // guards configs and find, which tests change while the loops run
	configs []*ipam.Config
	find    error

	broken map[string]error
	opened []Settings
	log    *syncBuffer
}

// syncBuffer is written by the loops while a test reads it.
type syncBuffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *syncBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(data)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}

func newTestHost(t *testing.T, s Settings, names ...string) *host {
	t.Helper()
	h := &host{pools: map[string]*fakePool{}, log: &syncBuffer{}}
	for _, name := range names {
		h.pools[name] = &fakePool{}
		h.configs = append(h.configs, parsed(t, name, ""))
	}
	h.Pools = New(Config{
		Find: func() ([]*ipam.Config, map[string]error, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.configs, h.broken, h.find
		},
		Open: func(c *ipam.Config, s Settings) (Pool, error) {
			h.opened = append(h.opened, s)
			if h.pools[c.Pool] == nil {
				return nil, errors.New("no such pool")
			}
			return h.pools[c.Pool], nil
		},
		Problem: func(string, Problem, bool) {},
		InUse:   func(netip.Prefix) (bool, error) { return true, nil },
		Used:    func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("10.91.0.70")}, nil },
		Logger:  hclog.New(&hclog.LoggerOptions{Output: h.log, Level: hclog.Info}),
	}, s)
	return h
}

// finds sets what the host finds from now on.
func (h *host) finds(err error, configs ...*ipam.Config) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.configs, h.find = configs, err
}

// parsed is the configuration of a pool, with more keys.
func parsed(t *testing.T, name, more string) *ipam.Config {
	t.Helper()
	c, err := ipam.Parse([]byte(`{"type": "allocnet-ipam", "pool": "` + name + `", "ranges": [{"subnet": "10.91.0.0/16"}]` + more + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
