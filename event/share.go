// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package event

import (
	"bytes"
	"encoding/json"
	"slices"
)

// owned is what a rotation reads of an event.
type owned struct {
	Index      uint64 `json:"index"`
	Allocation string `json:"allocation"`
	Namespace  string `json:"namespace"`
	Job        string `json:"job"`
	Pool       string `json:"pool"`
	line       []byte
}

// ownerOf reads a line of any format. The index is 0 for what is no event.
func ownerOf(line []byte) owned {
	o := owned{line: line}
	if json.Unmarshal(line, &o) != nil {
		return owned{}
	}
	return o
}

// owner is the pool, the job, or else the allocation.
func (o owned) owner() string {
	if o.Pool != "" {
		return "pool " + o.Pool
	}
	if o.Job == "" {
		return "allocation " + o.Allocation
	}
	return "job " + o.Job + "@" + o.Namespace
}

func (o owned) size() int64 { return int64(len(o.line)) + 1 }

// thin returns the events of the lines, each once, in at most size bytes. If they are
// more, each owner keeps its newest in an equal share; what one does not need is the
// others'.
func thin(lines []byte, size int64) []byte {
	events := events(lines)
	sizes := map[string]int64{}
	for _, e := range events {
		sizes[e.owner()] += e.size()
	}
	left := shares(sizes, size)
	keep := make([]bool, len(events))
	for i, e := range slices.Backward(events) {
		owner := e.owner()
		left[owner] -= e.size()
		if keep[i] = left[owner] >= 0; keep[i] {
			size -= e.size()
		}
	}
	for i, e := range slices.Backward(events) { // the newest has the last index, and there is a rest, as no event is split
		if keep[i] {
			continue
		}
		if size -= e.size(); size < 0 && i < len(events)-1 {
			break
		}
		keep[i] = true
	}
	var kept []byte
	for i, e := range events {
		if keep[i] {
			kept = append(append(kept, e.line...), '\n')
		}
	}
	return kept
}

// events returns the events of lines whose indexes grow: a rotation that was killed has
// left those of current in both files.
func events(lines []byte) []owned {
	var all []owned
	var last uint64
	for line := range bytes.Lines(lines) {
		if e := ownerOf(bytes.TrimSuffix(line, []byte("\n"))); e.Index > last {
			all = append(all, e)
			last = e.Index
		}
	}
	return all
}

// shares divides a size among owners: those who need less than an equal share have what
// they need, and the others share the rest.
func shares(needs map[string]int64, size int64) map[string]int64 {
	var sorted []int64
	for _, need := range needs {
		sorted = append(sorted, need)
	}
	slices.Sort(sorted)
	equal := size
	for i, need := range sorted {
		equal = size / int64(len(sorted)-i)
		if need > equal {
			break
		}
		size -= need
	}
	given := map[string]int64{}
	for owner, need := range needs {
		given[owner] = min(need, max(equal, 0))
	}
	return given
}
