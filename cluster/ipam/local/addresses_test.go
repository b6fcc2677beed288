// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/errdefs"
)

// host is a host with a pool whose blocks it has all.
type host struct {
	testing.TB
	*Addresses
	clock  time.Time
	blocks []ipam.Block
}

// newHost returns a host with the blocks of a configuration. Paths are set by it.
func newHost(t testing.TB, config string) *host {
	t.Helper()
	return newHostIn(t, t.TempDir(), config)
}

func newHostIn(t testing.TB, dir, config string) *host {
	t.Helper()
	c, err := ipam.Parse(fmt.Appendf(nil, `{"pool": "p", "dataDir": "%s/leases", "stateDir": "%s/state", %s}`, dir, dir, config))
	if err != nil {
		t.Fatal(err)
	}
	h := &host{TB: t, clock: time.Unix(1_800_000_000, 0)}
	h.Addresses = New(c, func() time.Time { return h.clock })
	for _, f := range c.Families() {
		slots := c.Slots(f)
		for i := range min(slots.Count(), 16) {
			h.blocks = append(h.blocks, slots.At(i))
		}
	}
	return h
}

func owner(id string) ipam.Owner { return ipam.Owner{ContainerID: id, Interface: "eth0"} }

func (h *host) open() ([]ipam.Block, error) { return h.blocks, nil }

// take returns the addresses that a container gets, or the error.
func (h *host) take(id string) string {
	h.Helper()
	all, made, err := h.Take(h.Context(), owner(id), h.config.Families(), h.open)
	if err != nil {
		return err.Error()
	}
	all = append(all, made...)
	slices.SortFunc(all, func(x, y netip.Addr) int { return y.Compare(x) })
	return strings.Trim(fmt.Sprint(all), "[]")
}

func (h *host) release(id string) {
	h.Helper()
	if err := h.Release(h.Context(), owner(id)); err != nil {
		h.Fatal(err)
	}
}

func (h *host) requireTake(id, want string) {
	h.Helper()
	if got := h.take(id); got != want {
		h.Errorf("%s gets %s, want %s", id, got, want)
	}
}

func (h *host) path(address string) string {
	return filepath.Join(h.config.DataDir, "p", address)
}

// small has the addresses 10.0.0.2 to 10.0.0.5.
const small = `"ranges": [{"subnet": "10.0.0.0/29", "rangeEnd": "10.0.0.5"}]`

// TestSameOwner: the same attachment gets the same address, and another another.
func TestSameOwner(t *testing.T) {
	h := newHost(t, small)
	h.requireTake("a", "10.0.0.2")
	h.requireTake("a", "10.0.0.2")
	h.requireTake("b", "10.0.0.3")
	data, err := os.ReadFile(h.path("10.0.0.2"))
	if want := "a\r\neth0"; err != nil || string(data) != want {
		t.Errorf("the lease is %q, %v, want %q", data, err, want)
	}
	h.blocks = nil
	h.requireTake("a", "10.0.0.2")
}

// TestCooldown: a freed address rests, and then the one that was freed first is given out first.
func TestCooldown(t *testing.T) {
	h := newHost(t, small)
	for i, id := range []string{"a", "b", "c", "d"} {
		h.requireTake(id, fmt.Sprint("10.0.0.", i+2))
	}
	for _, id := range []string{"b", "d", "a"} {
		h.clock = h.clock.Add(10 * time.Second)
		h.release(id)
	}
	if got := h.take("e"); !strings.Contains(got, "1 blocks of this host have none, and 3 more from") {
		t.Errorf("e gets %s", got)
	}
	_, _, err := h.Take(t.Context(), owner("e"), h.config.Families(), h.open)
	var full *FullError
	if !errors.As(err, &full) || !errors.Is(err, ipam.ErrExhausted) || !full.Next.Equal(h.clock.Add(40*time.Second)) || !slices.Equal(full.Families, []ipam.Family{ipam.IPv4}) {
		t.Errorf("the error is %#v", err)
	}
	h.clock = h.clock.Add(2 * time.Minute)
	for i, want := range []string{"10.0.0.3", "10.0.0.5", "10.0.0.2"} {
		h.requireTake(fmt.Sprint("new", i), want)
	}
}

// TestNeverUsedFirst: as long as there is one that was never used, none is used again.
func TestNeverUsedFirst(t *testing.T) {
	h := newHost(t, small)
	for _, want := range []string{"10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.2"} {
		h.requireTake("a", want)
		h.release("a")
		h.clock = h.clock.Add(time.Hour)
	}
}

// TestDualStack: an attachment gets an address of each family, or none, and the addresses that
// it does not get need not rest.
func TestDualStack(t *testing.T) {
	h := newHost(t, `"ranges": [{"subnet": "fd00::/64"}, `+small[len(`"ranges": [`):])
	h.blocks = []ipam.Block{netip.MustParsePrefix("10.0.0.0/29"), netip.MustParsePrefix("fd00::40/122")}
	for i, id := range []string{"a", "b", "c", "d"} {
		h.requireTake(id, fmt.Sprintf("fd00::%x 10.0.0.%d", 0x40+i, i+2))
	}
	if got := h.take("e"); !strings.Contains(got, "pool p, IPv4: 1 blocks") {
		t.Errorf("e gets %s", got)
	}
	if all, err := h.Of(t.Context(), owner("e")); err != nil || len(all) > 0 {
		t.Errorf("e has %v, %v", all, err)
	}
	h.release("d")
	h.clock = h.clock.Add(time.Hour)
	h.requireTake("e", "fd00::44 10.0.0.5")
}

// TestHalfAnAttachment: what a killed process has begun is completed.
func TestHalfAnAttachment(t *testing.T) {
	h := newHost(t, `"ranges": [{"subnet": "fd00::/122"}, `+small[len(`"ranges": [`):])
	h.requireTake("a", "fd00::2 10.0.0.2")
	if err := os.Remove(h.path("fd00::2")); err != nil {
		t.Fatal(err)
	}
	h.requireTake("a", "fd00::3 10.0.0.2")
}

// TestFreedByAnother: the cooldown of an address whose lease another program removed begins
// when that is seen.
func TestFreedByAnother(t *testing.T) {
	h := newHost(t, small)
	for _, id := range []string{"a", "b", "c", "d"} {
		h.take(id)
	}
	if err := os.Remove(h.path("10.0.0.4")); err != nil {
		t.Fatal(err)
	}
	h.clock = h.clock.Add(time.Hour)
	if got := h.take("e"); !strings.Contains(got, "1 more from") {
		t.Errorf("e gets %s", got)
	}
	h.clock = h.clock.Add(time.Minute)
	h.requireTake("e", "10.0.0.4")
}

// TestLeasedByAnother: an address that another program has leased is not given out.
func TestLeasedByAnother(t *testing.T) {
	h := newHost(t, small)
	h.take("a")
	if err := os.WriteFile(h.path("10.0.0.3"), []byte("x\r\neth1"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.requireTake("b", "10.0.0.4")
	h.requireTake("c", "10.0.0.5")
	if err := h.Release(t.Context(), ipam.Owner{ContainerID: "x", Interface: "eth1"}); err != nil {
		t.Fatal(err)
	}
	h.clock = h.clock.Add(time.Minute)
	h.requireTake("d", "10.0.0.3")
}

// TestClock: after the clock was set back, an address that was freed in the future rests once.
func TestClock(t *testing.T) {
	h := newHost(t, `"ranges": [{"subnet": "10.0.0.0/29", "rangeEnd": "10.0.0.2"}]`)
	h.take("a")
	h.release("a")
	h.clock = h.clock.Add(-365 * 24 * time.Hour)
	if got := h.take("b"); !strings.Contains(got, "1 more from") {
		t.Errorf("b gets %s", got)
	}
	h.clock = h.clock.Add(time.Minute)
	h.requireTake("b", "10.0.0.2")
}

// TestQuarantine: an address that another host uses is not given out for an hour.
func TestQuarantine(t *testing.T) {
	h := newHost(t, `"ranges": [{"subnet": "10.0.0.0/29", "rangeEnd": "10.0.0.3"}]`)
	h.requireTake("a", "10.0.0.2")
	if err := h.Quarantine(t.Context(), owner("a"), netip.MustParseAddr("10.0.0.2")); err != nil {
		t.Fatal(err)
	}
	h.requireTake("a", "10.0.0.3")
	h.clock = h.clock.Add(59 * time.Minute)
	if got := h.take("b"); !strings.Contains(got, "1 more from") {
		t.Errorf("b gets %s", got)
	}
	h.clock = h.clock.Add(-24 * time.Hour) // at most an hour from now
	h.take("b")
	h.clock = h.clock.Add(time.Hour)
	h.requireTake("b", "10.0.0.2")
}

// TestBlocksAreAskedForUnderTheLock: what they are does not change until the lease is made.
func TestBlocksAreAskedForUnderTheLock(t *testing.T) {
	h, locked := newHost(t, small), errors.New("locked")
	_, _, err := h.Take(t.Context(), owner("a"), h.config.Families(), func() ([]ipam.Block, error) {
		ended, stop := context.WithCancelCause(t.Context())
		stop(locked)
		_, err := h.Lock(ended)
		return h.blocks, err
	})
	if !errors.Is(err, locked) {
		t.Errorf("the lock can be taken: %v", err)
	}
}

// TestHistoriesOfAllSizes: a history that is short, or has other bytes, is read as far as it goes.
func TestHistoriesOfAllSizes(t *testing.T) {
	for _, size := range []int{0, 1, 8, 31, 64, 65, 4096} {
		h := newHost(t, small)
		h.take("a")
		if err := os.Truncate(filepath.Join(h.dir, "0a000000-29"), int64(size)); err != nil {
			t.Fatal(err)
		}
		h.requireTake("b", "10.0.0.3")
	}
}

// TestCount: what is used, what rests and what is free, also of what other programs did.
func TestCount(t *testing.T) {
	h := newHost(t, `"reserved": ["10.0.0.4"], "ranges": [{"subnet": "10.0.0.0/28"}]`)
	for _, id := range []string{"a", "b", "c"} {
		h.take(id)
	}
	h.release("a")
	err := errors.Join(os.Remove(h.path("10.0.0.3")), os.WriteFile(h.path("10.0.0.4"), []byte("r\r\neth0"), 0o600),
		os.WriteFile(h.path("10.0.0.1"), []byte("x\r\neth0"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	counts, err := h.Count(t.Context(), h.blocks)
	want := Count{Used: 2, Cooling: 2, Free: 9, Cool: h.clock.Add(time.Minute)}
	if err != nil || len(counts) != 1 || counts[0] != want {
		t.Errorf("the counts are %+v, %v, want %+v", counts, err, want)
	}
	unlock, err := h.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if leased, cool, err := h.LastUse(h.blocks[0]); leased != 2 || !cool.Equal(want.Cool) || err != nil {
		t.Errorf("the last use is %d leases, %s, %v", leased, cool, err)
	}
}

// TestUnusedBlock: counting makes no files, and forgetting removes them.
func TestUnusedBlock(t *testing.T) {
	h := newHost(t, small)
	counts, err := h.Count(t.Context(), h.blocks)
	if err != nil || counts[0] != (Count{Free: 4}) {
		t.Errorf("the counts are %+v, %v", counts, err)
	}
	if _, err := os.Stat(h.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a directory: %v", err)
	}
	h.take("a")
	for range 2 {
		if err := h.Forget(h.blocks[0]); err != nil {
			t.Error(err)
		}
	}
	if all, err := os.ReadDir(h.dir); err != nil || len(all) > 0 {
		t.Errorf("files are left: %v, %v", all, err)
	}
}

// TestReservedLeases: they are made and removed for their owner, and leave no history.
func TestReservedLeases(t *testing.T) {
	h := newHost(t, `"reserved": ["10.0.0.4"], "ranges": [{"subnet": "10.0.0.0/28"}]`)
	ctx, address := t.Context(), netip.MustParseAddr("10.0.0.4")
	for range 2 {
		if err := h.Add(ctx, address, owner("a")); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Add(ctx, address, owner("b")); errdefs.Of(err) != errdefs.Unavailable || !strings.Contains(err.Error(), owner("a").ContainerID) {
		t.Errorf("the lease of another: %v", err)
	}
	if err := h.Remove(ctx, address, owner("b")); err != nil {
		t.Error(err)
	}
	if got, ok, err := h.Owner(ctx, address); got != owner("a") || !ok || err != nil {
		t.Errorf("the owner is %v, %v, %v", got, ok, err)
	}
	h.requireTake("a", "10.0.0.2")
	h.release("a")
	if _, ok, err := h.Owner(ctx, address); ok || err != nil {
		t.Errorf("there is a lease, %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(h.dir, "0a000000-28")); err != nil || len(data) != 8*3 {
		t.Errorf("the history is %q, %v", data, err)
	}
}

// TestLeases: each address is there with its owner.
func TestLeases(t *testing.T) {
	h := newHost(t, `"ranges": [{"subnet": "fd00::/122"}, `+small[len(`"ranges": [`):])
	h.take("a")
	h.take("b")
	all, err := h.Leases(t.Context())
	owners := map[string]string{}
	for _, l := range all {
		owners[l.Address.String()] = l.Owner.ContainerID
		if l.Made.IsZero() {
			t.Errorf("%s was made at no time", l.Address)
		}
	}
	want := map[string]string{"10.0.0.2": "a", "10.0.0.3": "b", "fd00::2": "a", "fd00::3": "b"}
	if err != nil || !maps.Equal(owners, want) {
		t.Errorf("the leases are %v, %v, want %v", owners, err, want)
	}
}

// TestManyLeases: with an index of owners, what other programs do is noticed as without.
func TestManyLeases(t *testing.T) {
	h := newHost(t, `"ranges": [{"subnet": "10.0.0.0/26"}]`)
	for i := range 61 {
		h.requireTake(fmt.Sprint("c", i), fmt.Sprint("10.0.0.", i+2))
	}
	if err := os.Remove(h.path("10.0.0.40")); err != nil {
		t.Fatal(err)
	}
	if got := h.take("d"); !strings.Contains(got, "1 more from") {
		t.Errorf("d gets %s", got)
	}
	h.clock = h.clock.Add(time.Minute)
	h.requireTake("d", "10.0.0.40")
	h.requireTake("c7", "10.0.0.9")
}

// TestUnwritableLease: an address whose lease cannot be made is not lost.
func TestUnwritableLease(t *testing.T) {
	h := newHost(t, small)
	h.take("a")
	if err := os.RemoveAll(filepath.Join(h.config.DataDir, "p")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.config.DataDir, "p"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.Take(t.Context(), owner("b"), h.config.Families(), h.open); err == nil {
		t.Error("there is no error")
	}
	if err := os.Remove(filepath.Join(h.config.DataDir, "p")); err != nil {
		t.Fatal(err)
	}
	h.requireTake("b", "10.0.0.3")
}

// TestKilledBeforeTheLease: an address that a killed process has marked is found when no other
// is free, also if the index says that no other program has changed the leases.
func TestKilledBeforeTheLease(t *testing.T) {
	h := newHost(t, `"ranges": [{"subnet": "10.0.0.0/27"}]`)
	for i := range 20 {
		h.take(fmt.Sprint("c", i))
	}
	if err := h.record(netip.MustParseAddr("10.0.0.30"), inUse); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		h.requireTake(fmt.Sprint("d", i), fmt.Sprint("10.0.0.", 22+i))
	}
	if got := h.take("e"); !strings.Contains(got, "1 more from") {
		t.Errorf("e gets %s", got)
	}
	h.clock = h.clock.Add(time.Minute)
	h.requireTake("e", "10.0.0.30")
}
