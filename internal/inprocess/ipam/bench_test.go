// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/containernetworking/plugins/plugins/ipam/host-local/backend/allocator"

	"github.com/allocnet/allocnet/cluster/connect"
	pools "github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/linked"
	ipamplugin "github.com/allocnet/allocnet/cluster/ipam/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
)

// ipamSubject is one way to assign an address to an attachment, and to free it.
type ipamSubject struct {
	name     string
	add, del func(id string)
}

// BenchmarkIPAMInProcess compares allocnet-ipam on a host with blocks, host-local by the
// library of the plugin, and host-local as this package executes it: ADD and DEL of an
// attachment, beside others. They come in turn within each iteration; the figures are medians.
func BenchmarkIPAMInProcess(b *testing.B) {
	for _, others := range []int{0, 1000} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			subjects := ipamSubjects(b, others)
			adds, dels := make([][]float64, len(subjects)), make([][]float64, len(subjects))
			const id = "3f1c2b9e-5f0b-4c55-9d3b-aaaaaaaaaaaa"
			for round := 0; b.Loop(); round++ {
				for at := range subjects {
					i := (at + round) % len(subjects) // none is always first
					adds[i] = append(adds[i], microseconds(func() { subjects[i].add(id) }))
					dels[i] = append(dels[i], microseconds(func() { subjects[i].del(id) }))
				}
			}
			for i, s := range subjects {
				b.ReportMetric(middle(adds[i]), s.name+"-add-µs")
				b.ReportMetric(middle(dels[i]), s.name+"-del-µs")
				if i > 0 {
					b.ReportMetric((middle(adds[0])+middle(dels[0]))/(middle(adds[i])+middle(dels[i])), "add+del/"+s.name)
				}
			}
			b.ReportMetric(0, "ns/op") // the sum of all subjects has no meaning
		})
	}
}

func microseconds(do func()) float64 {
	begun := time.Now()
	do()
	return float64(time.Since(begun)) / float64(time.Microsecond)
}

// middle sorts the values and returns their median.
func middle(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// ipamSubjects returns the subjects, with the leases of others. The blocks for these and for
// the measured attachment are claimed.
func ipamSubjects(b *testing.B, others int) []ipamSubject {
	b.Helper()
	dir := b.TempDir()
	pool := ipamExecuted(b, "allocnet-ipam", fmt.Sprintf(`"pool": "p", "ranges": [{"subnet": "10.2.0.0/16"}],
		"cooldown": "0s", "dataDir": "%[1]s/own", "stateDir": "%[1]s/state", "configDir": "%[1]s/none"`, dir))
	executed := ipamExecuted(b, "host-local", fmt.Sprintf(`"ranges": [[{"subnet": "10.2.0.0/16"}]], "dataDir": "%s/executed"`, dir))
	executed.name += "-in-process"
	library := reference{b, filepath.Join(dir, "library"), []allocator.RangeSet{{{Subnet: testNetwork(b, "10.2.0.0/16")}}}}
	if err := library.sets[0].Canonicalize(); err != nil {
		b.Fatal(err)
	}
	for i := range others {
		id := fmt.Sprintf("3f1c2b9e-5f0b-4c55-9d3b-%012d", i)
		pool.add(id)
		executed.add(id)
		own(library).add(id, "eth0", nil) // the library itself reads all leases for each
	}
	pool.add("first") // may claim a block
	pool.del("first")
	return []ipamSubject{pool, {
		name: "host-local",
		add:  func(id string) { library.add(id, "eth0", nil) },
		del:  func(id string) { library.del(id, "eth0") },
	}, executed}
}

// ipamExecuted is an IPAM plugin as this package executes it, with keys of its configuration.
func ipamExecuted(b *testing.B, name, keys string) ipamSubject {
	config := fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "net", "type": "bridge", "ipam": {"type": %q, %s}}`, name, keys)
	attachment := func(id string) *plugin.Call {
		types := map[string]plugin.Type{
			"host-local":    HostLocal,
			"allocnet-ipam": *linked.Type(func(c *pools.Config) ipamplugin.Connection { return connect.New(c.ConfigDir, c.StateDir) }),
		}
		find := func(name string) (plugin.Type, bool) { p, ok := types[name]; return p, ok }
		return &plugin.Call{
			Ctx: b.Context(), ContainerID: id, IfName: "eth0", Version: "1.0.0", Network: "net", Config: config, Changes: &plugin.Changes{}, IPAM: find,
		}
	}
	return ipamSubject{
		name: name,
		add: func(id string) {
			if _, err := attachment(id).AddIPAM(name); err != nil {
				b.Fatal(err)
			}
		},
		del: func(id string) {
			if err := attachment(id).ReleaseIPAM(name); err != nil {
				b.Fatal(err)
			}
		},
	}
}
