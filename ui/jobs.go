// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/allocation"
)

const (
	// shownPerJob is the most allocations of a job that the map shows: it is a picture, and the list has all.
	shownPerJob = 24
	// openJobs is how many allocations a map has at most in which all jobs are open.
	openJobs = 48
	// mapColours is how many colours networks have, which repeat.
	mapColours = 6
)

type mapPage struct {
	Networks []mapNetwork
	Jobs     []mapJob
	// OnlyProblems is whether what has none is left out.
	OnlyProblems bool
	// Allocations and Attachments are those of the host, and Problems those of the map.
	Allocations, Attachments, Problems int
	// Unknown is why not all problems of the map are known. Nil: they are.
	Unknown error
	colours map[string]int
}

// ColourOf returns the number of a network's colour.
func (p mapPage) ColourOf(network string) int { return p.colours[network] }

// mapNetwork is a network with what is wrong of it.
type mapNetwork struct {
	Name     string
	Subnets  []netip.Prefix
	Usage    []api.NetworkUsage
	Problems []problem
	// Colour is the number of its colour, and Attachments those of the host.
	Colour, Attachments int
}

// mapJob is a job with its allocations on this host, those with problems first.
type mapJob struct {
	Identity    allocation.Identity
	Allocations []mapAllocation
	// Count is how many it has, of which some are not shown, and Problems how many they have.
	Count, Problems int
	Networks        []jobNetwork
	Open            bool
}

// More is how many allocations are not shown.
func (j mapJob) More() int { return j.Count - len(j.Allocations) }

type jobNetwork struct {
	Name          string
	Colour, Count int
}

type mapAllocation struct {
	*api.Allocation
	Problems []problem
}

func newMap(h *host, onlyProblems bool) mapPage {
	p := mapPage{OnlyProblems: onlyProblems, Allocations: len(h.Allocations.Value), Unknown: cmp.Or(h.Map.Err, h.Networks.Err)}
	if p.Unknown == nil && h.Repair.Supported() {
		p.Unknown = h.Repair.Err
	}
	ofAllocations, ofNetworks := map[string][]problem{}, map[string][]problem{}
	for _, one := range append(h.problems(), h.ofDrift()...) {
		switch {
		case one.Allocation != "":
			ofAllocations[one.Allocation] = append(ofAllocations[one.Allocation], one)
		case one.Kind == "network" || one.Kind == "drift":
			ofNetworks[one.Subject] = append(ofNetworks[one.Subject], one)
		default:
			continue
		}
		p.Problems++
	}
	p.addNetworks(h, ofNetworks)
	p.addJobs(h.Allocations.Value, ofAllocations)
	return p
}

func (p *mapPage) addNetworks(h *host, problems map[string][]problem) {
	p.colours = map[string]int{}
	counts := map[string]int{}
	for _, a := range h.Allocations.Value {
		p.Attachments += len(a.Attachments)
		for _, n := range a.Attachments {
			counts[n.Network]++
		}
	}
	var all []api.Network
	if h.Networks.Err == nil {
		all = h.Networks.Value.Networks
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if !slices.ContainsFunc(all, func(n api.Network) bool { return n.Name == name }) {
			all = append(slices.Clip(all), api.Network{Name: name}) // only records have it
		}
	}
	for i, n := range all {
		p.colours[n.Name] = i % mapColours
		m := mapNetwork{n.Name, n.Subnets, n.Usage, problems[n.Name], i % mapColours, counts[n.Name]}
		if !p.OnlyProblems || len(m.Problems) > 0 {
			p.Networks = append(p.Networks, m)
		}
	}
}

func (p *mapPage) addJobs(all []*api.Allocation, problems map[string][]problem) {
	jobs := map[allocation.Identity]*mapJob{}
	for _, a := range all {
		if p.OnlyProblems && len(problems[a.ID]) == 0 {
			continue
		}
		key := allocation.Identity{Namespace: a.Identity.Namespace, Job: a.Identity.Job}
		if jobs[key] == nil {
			jobs[key] = &mapJob{Identity: key}
		}
		jobs[key].Allocations = append(jobs[key].Allocations, mapAllocation{a, problems[a.ID]})
	}
	for _, j := range jobs {
		j.finish(p.colours)
		j.Open = j.Problems > 0 || p.Allocations <= openJobs
		p.Jobs = append(p.Jobs, *j)
	}
	// What no job has is last.
	slices.SortFunc(p.Jobs, func(a, b mapJob) int {
		return cmp.Or(compareBools(a.Identity.Job == "", b.Identity.Job == ""), cmp.Compare(a.Identity.Namespace, b.Identity.Namespace), cmp.Compare(a.Identity.Job, b.Identity.Job))
	})
}

// finish counts what a job has, and cuts its list.
func (j *mapJob) finish(colours map[string]int) {
	counts := map[string]int{}
	for _, a := range j.Allocations {
		j.Problems += len(a.Problems)
		for _, n := range a.Attachments {
			counts[n.Network]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		j.Networks = append(j.Networks, jobNetwork{name, colours[name], counts[name]})
	}
	slices.SortStableFunc(j.Allocations, func(a, b mapAllocation) int {
		return cmp.Or(compareBools(len(a.Problems) == 0, len(b.Problems) == 0), cmp.Compare(a.Identity.Group, b.Identity.Group), cmp.Compare(a.ID, b.ID))
	})
	j.Count = len(j.Allocations)
	j.Allocations = j.Allocations[:min(j.Count, shownPerJob)]
}

// compareBools has false first.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
