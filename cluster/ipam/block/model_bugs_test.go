// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/exhaustive"
)

// bug is a mistake that the model has to find: something that was written is read as if it were
// not so.
type bug struct {
	// from is the first schedule: with those before, it takes longer to find.
	from uint64
	// enable has what is needed happen in all schedules.
	enable func(f *features)
	read   func(h *fakeHost, name string, data []byte) []byte
}

// bugs are one of each kind.
var bugs = map[string]bug{
	"the copy of a disk does not wait before it gives out addresses": {
		70,
		func(f *features) { f.clones = true },
		func(h *fakeHost, name string, data []byte) []byte {
			return editRecords(name, data, func(r *records) {
				r.Verified = h.agent.machine.moment(h.self.Boot)
				for i := range r.Blocks {
					r.Blocks[i].Boot = h.self.Boot
				}
			})
		},
	},
	"the nonce is not renewed, so that a copy with the memory is not found": {
		3705,
		func(f *features) { f.copies = true },
		func(h *fakeHost, name string, data []byte) []byte {
			n := &node{}
			if name != nodeFile || json.Unmarshal(data, n) != nil {
				return data
			}
			n.Renewed = h.agent.machine.moment(h.self.Boot)
			return mustEncode(n)
		},
	},
	"a block is given back at once, so that a copy with the memory cannot object": {
		3790,
		func(f *features) { f.copies, f.churn = true, true },
		func(h *fakeHost, name string, data []byte) []byte {
			return editRecords(name, data, func(r *records) {
				for i := range r.Blocks {
					if r.Blocks[i].State == Releasing {
						r.Blocks[i].Offered = moment{Time: time.Unix(1, 0).UTC(), Uptime: math.MinInt64 / 2, Boot: h.self.Boot}
					}
				}
			})
		},
	},
	"Nomad's word alone is enough to reclaim": {
		365,
		func(f *features) { f.purges = true },
		func(_ *fakeHost, name string, data []byte) []byte {
			v := &view{}
			if name != viewFile || json.Unmarshal(data, v) != nil {
				return data
			}
			for path, s := range v.Silent {
				s.At.Uptime -= int64(100 * time.Hour)
				v.Silent[path] = s
			}
			return mustEncode(v)
		},
	},
	"a state directory that was restored is believed": {
		15935,
		func(f *features) { f.backups, f.churn = true, true },
		func(h *fakeHost, name string, data []byte) []byte {
			r := &records{}
			if name != presentFile || json.Unmarshal(h.files[recordsFile], r) != nil {
				return data
			}
			return mustEncode(present{presentVersion, r.Boot, r.Generation})
		},
	},
	"the fence is not obeyed": {
		1278,
		func(f *features) { f.partitions, f.deaths = true, true },
		func(h *fakeHost, name string, data []byte) []byte {
			return editRecords(name, data, func(r *records) { r.Verified.Uptime = h.agent.machine.moment(h.self.Boot).Uptime })
		},
	},
}

func editRecords(name string, data []byte, edit func(r *records)) []byte {
	r := &records{}
	if name != recordsFile || json.Unmarshal(data, r) != nil {
		return data
	}
	edit(r)
	return mustEncode(r)
}

func mustEncode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return append(bytes.TrimSpace(data), '\n')
}

// TestModelFindsBugs: the model finds a bug of each kind.
func TestModelFindsBugs(t *testing.T) {
	for name, b := range bugs {
		exhaustive.Run(t, name, func(t *testing.T) {
			for seed := b.from; seed < b.from+schedules; seed++ {
				if w := runSchedule(seed, false, &b); w.failure != "" {
					t.Logf("schedule %d: %s", seed, w.failure)
					return
				}
			}
			t.Errorf("not found in %d schedules", schedules)
		})
	}
}
