// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/plugins/plugins/ipam/host-local/backend/allocator"
	"github.com/containernetworking/plugins/plugins/ipam/host-local/backend/disk"
	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/leases"
)

// allocations are what addresses are allocated with: this package's store, or the plugin's.
type allocations interface {
	add(id, ifName string, requested net.IP) string
	check(id, ifName string) bool
	del(id, ifName string)
	addresses(id, ifName string) []net.IP
}

// testRanges are two sets of ranges, of which the second has few addresses.
func testRanges(t testing.TB) []allocator.RangeSet {
	t.Helper()
	sets := []allocator.RangeSet{
		{{Subnet: testNetwork(t, "10.1.0.0/26")}, {Subnet: testNetwork(t, "10.1.1.0/29")}},
		{{Subnet: testNetwork(t, "fd00:1::/64"), RangeEnd: net.ParseIP("fd00:1::30")}},
	}
	for i := range sets {
		if err := sets[i].Canonicalize(); err != nil {
			t.Fatal(err)
		}
	}
	return sets
}

func testNetwork(t testing.TB, text string) types.IPNet {
	t.Helper()
	network, err := types.ParseCIDR(text)
	if err != nil {
		t.Fatal(err)
	}
	return types.IPNet(*network)
}

// own are leases by this package.
type own struct {
	t    testing.TB
	dir  string
	sets []allocator.RangeSet
}

func (o own) open() *leases.Store {
	o.t.Helper()
	store, err := leases.Open(o.t.Context(), o.dir, "net")
	if err != nil {
		o.t.Fatal(err)
	}
	return store
}

func (o own) add(id, ifName string, requested net.IP) string {
	store := o.open()
	defer store.Close()
	conf := &allocator.IPAMConfig{Ranges: o.sets}
	if requested != nil {
		conf.IPArgs = []net.IP{requested}
	}
	ips, err := allocate((&plugin.Call{ContainerID: id, IfName: ifName}), store, conf)
	return fmt.Sprint(ips, err)
}

func (o own) check(id, ifName string) bool {
	store := o.open()
	defer store.Close()
	return len(store.GetByID(id, ifName)) > 0
}

func (o own) del(id, ifName string) {
	store := o.open()
	defer store.Close()
	releaseLeases((&plugin.Call{ContainerID: id, IfName: ifName}), store, len(o.sets))
}

func (o own) addresses(id, ifName string) []net.IP {
	store := o.open()
	defer store.Close()
	return store.GetByID(id, ifName)
}

// reference are leases by the plugin's library, with what its main package does.
type reference own

func (r reference) open() *disk.Store {
	r.t.Helper()
	store, err := disk.New("net", r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	return store
}

func (r reference) add(id, ifName string, requested net.IP) string {
	store := r.open()
	defer store.Close()
	var ips []any
	var used []*allocator.IPAllocator
	fail := func(err error) string {
		for _, a := range used {
			_ = a.Release(id, ifName)
		}
		return fmt.Sprint([]any{}, err)
	}
	for i := range r.sets {
		var wanted net.IP
		if requested != nil && r.sets[i].Contains(requested) {
			wanted, requested = requested, nil
		}
		a := allocator.NewIPAllocator(&r.sets[i], store, i)
		ip, err := a.Get(id, ifName, wanted)
		if err != nil {
			return fail(fmt.Errorf("failed to allocate for range %d: %w", i, err))
		}
		used, ips = append(used, a), append(ips, ip)
	}
	if requested != nil {
		return fail(fmt.Errorf("failed to allocate all requested IPs: %s", requested))
	}
	return fmt.Sprint(ips, nil)
}

func (r reference) check(id, ifName string) bool {
	store := r.open()
	defer store.Close()
	return store.FindByID(id, ifName)
}

func (r reference) del(id, ifName string) {
	store := r.open()
	defer store.Close()
	for i := range r.sets {
		_ = allocator.NewIPAllocator(&r.sets[i], store, i).Release(id, ifName)
	}
}

func (r reference) addresses(id, ifName string) []net.IP {
	store := r.open()
	defer store.Close()
	return store.GetByID(id, ifName)
}

// leaseFiles returns the files of a network with their modes and contents.
func leaseFiles(t testing.TB, dataDir string) (files []string) {
	t.Helper()
	root := filepath.Join(dataDir, "net")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		files = append(files, fmt.Sprintf("%s %s %q", name, info.Mode(), data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestLeaseStore: random calls give the same results and files as the plugin's library, also
// if some of the calls are the plugin's.
func TestLeaseStore(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			sets := testRanges(t)
			random := rand.New(rand.NewPCG(seed, 0))
			tested, other := own{t, t.TempDir(), sets}, reference{t, t.TempDir(), sets}
			for step := range 150 {
				var side allocations = tested
				if seed%2 == 1 && random.IntN(8) == 0 {
					side = reference(tested)
				}
				id, ifName := fmt.Sprint("c", random.IntN(70)), fmt.Sprint("eth", random.IntN(2))
				what, got, want := randomCall(random, id, ifName, side, other)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("step %d, %s of %s: (-plugin +own)\n%s", step, what, id+"/"+ifName, diff)
				}
				if random.IntN(10) == 0 {
					changeByHand(t, random, tested.dir, other.dir)
				}
				if step%8 != 0 {
					continue
				}
				if diff := cmp.Diff(leaseFiles(t, other.dir), leaseFiles(t, tested.dir)); diff != "" {
					t.Fatalf("step %d, %s of %s: files (-plugin +own)\n%s", step, what, id+"/"+ifName, diff)
				}
			}
		})
	}
}

func randomCall(random *rand.Rand, id, ifName string, tested, other allocations) (what string, got, want any) {
	switch random.IntN(8) {
	case 0, 1, 2:
		return "ADD", tested.add(id, ifName, nil), other.add(id, ifName, nil)
	case 3:
		requested := net.IPv4(10, 1, byte(random.IntN(3)), byte(random.IntN(16)))
		return "ADD of " + requested.String(), tested.add(id, ifName, requested), other.add(id, ifName, requested)
	case 4, 5:
		tested.del(id, ifName)
		other.del(id, ifName)
		return "DEL", nil, nil
	case 6:
		return "CHECK", tested.check(id, ifName), other.check(id, ifName)
	}
	return "addresses", tested.addresses(id, ifName), other.addresses(id, ifName)
}

// changeByHand changes both directories alike, as neither store does.
func changeByHand(t *testing.T, random *rand.Rand, dirs ...string) {
	t.Helper()
	number, what := random.IntN(40), random.IntN(4)
	for _, dir := range dirs {
		lease := filepath.Join(dir, "net", fmt.Sprint("10.1.0.", number))
		var err error
		switch what {
		case 0:
			err = os.Remove(lease)
		case 1: // a lease of an old version, which may have been another's
			err = errors.Join(os.WriteFile(lease+".new", []byte(fmt.Sprint("c", number)), 0o600), os.Rename(lease+".new", lease))
		case 2:
			err = os.WriteFile(filepath.Join(dir, "net", "note"), []byte("  \n"), 0o600)
		case 3:
			err = errors.Join(os.MkdirAll(filepath.Join(dir, "net", "old"), 0o700),
				os.WriteFile(filepath.Join(dir, "net", "old", "10.9.9.9"), []byte("c1\r\neth0\n"), 0o600))
			if number < 35 {
				err = os.RemoveAll(filepath.Join(dir, "net", "old"))
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// TestDELOfAllRanges: DEL frees what the attachment has of each set of ranges, as the plugin does: leases of
// an old version, which have no interface, only after the others.
func TestDELOfAllRanges(t *testing.T) {
	dir := t.TempDir()
	config := fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "net", "ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": "10.1.0.0/26"}], [{"subnet": "fd00:1::/64"}]]}}`, dir)
	c := &plugin.Call{Ctx: t.Context(), Network: "net", ContainerID: "c1", IfName: "eth0", Config: config}
	if _, err := addHostLocal(c); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(dir, "net", "10.1.0.40")
	if err := os.WriteFile(old, []byte("c1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := delHostLocal(c); err != nil {
		t.Fatal(err)
	}
	if left := (own{t, dir, nil}).addresses("c1", "eth0"); len(left) > 0 {
		t.Errorf("DEL leaves %v", left)
	}
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("DEL leaves the lease of an old version: %v", err)
	}
}

// TestLeasesAtOnce: no address is given to two, whichever store the callers use.
func TestLeasesAtOnce(t *testing.T) {
	sets := testRanges(t)[1:]
	tested := own{t, t.TempDir(), sets}
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			var side allocations = tested
			if i%2 == 1 {
				side = reference(tested)
			}
			for j := range 20 {
				id := fmt.Sprintf("c%d-%d", i, j)
				side.add(id, "eth0", nil)
				if j%4 != 0 {
					side.del(id, "eth0")
				}
			}
		})
	}
	wait.Wait()
	for i := range 8 {
		for j := range 20 {
			id := fmt.Sprintf("c%d-%d", i, j)
			if got, want := len(tested.addresses(id, "eth0")), j%4; (got == 1) != (want == 0) || got > 1 {
				t.Errorf("%s has %d addresses", id, got)
			}
		}
	}
}

// TestRequestedAddresses: each is taken by the first ranges that have it, and once.
func TestRequestedAddresses(t *testing.T) {
	sets := testRanges(t)
	requested := []net.IP{net.ParseIP("192.0.2.1"), net.ParseIP("fd00:1::5"), net.ParseIP("10.1.0.9").To4(), net.ParseIP("fd00:1::5")}
	var got []string
	for i := range sets {
		got = append(got, takeRequested(&requested, &sets[i]).String())
	}
	if want := []string{"10.1.0.9", "fd00:1::5"}; !slices.Equal(got, want) || len(requested) != 1 {
		t.Errorf("taken %v, want %v; left %v", got, want, requested)
	}
}

func BenchmarkLeases(b *testing.B) {
	for _, number := range []int{0, 1000} {
		tested := own{b, b.TempDir(), []allocator.RangeSet{{{Subnet: testNetwork(b, "10.2.0.0/16")}}}}
		if err := tested.sets[0].Canonicalize(); err != nil {
			b.Fatal(err)
		}
		for i := range number {
			tested.add(fmt.Sprintf("3f1c2b9e-5f0b-4c55-9d3b-%012d", i), "eth0", nil)
		}
		for name, side := range map[string]allocations{"own": tested, "plugin": reference(tested)} {
			id := "3f1c2b9e-5f0b-4c55-9d3b-aaaaaaaaaaaa"
			b.Run(fmt.Sprintf("%s/%d", name, number), func(b *testing.B) {
				var adding, deleting time.Duration
				for b.Loop() {
					start := time.Now()
					side.add(id, "eth0", nil)
					added := time.Now()
					side.del(id, "eth0")
					adding, deleting = adding+added.Sub(start), deleting+time.Since(added)
				}
				b.ReportMetric(adding.Seconds()*1e6/float64(b.N), "µs/ADD")
				b.ReportMetric(deleting.Seconds()*1e6/float64(b.N), "µs/DEL")
			})
		}
	}
}
