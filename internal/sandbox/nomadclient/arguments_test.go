// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadclient

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/nomad"
)

// placed is an allocation that was not started.
func placed(g Group) *Allocation {
	a := newAllocation(g, 3)
	a.ID, a.path = "11111111-2222-3333-4444-555555555555", "/var/run/netns/x"
	return a
}

func TestArguments(t *testing.T) {
	g := Group{Namespace: "prod;x", Job: "db", Name: "g", Meta: map[string]string{"rack": "r1"}, TransparentProxy: true, Networks: []Network{
		{Args: map[string]string{"networks": "a${NOMAD_ALLOC_INDEX}", "IgnoreUnknown": "0", "NOMAD_JOB_ID": "forged"}},
		{Args: map[string]string{"nets/${NOMAD_DC}": "${NOMAD_META_rack},${node.datacenter},${unknown},$NOMAD_DC"}},
	}}
	job := []string{"IgnoreUnknown=0", "networks=a3", "nets/${NOMAD_DC}=r1,dc1,${unknown},$NOMAD_DC"}
	identity := []string{"NOMAD_ALLOC_ID=11111111-2222-3333-4444-555555555555", "NOMAD_GROUP_NAME=g", "NOMAD_JOB_ID=db", "NOMAD_REGION=global"}
	for version, want := range map[nomad.Version][]string{
		Real:               nil,
		nomad.JobArguments: append(slices.Clone(job), "NOMAD_JOB_ID=forged"),
		nomad.Identity:     append(slices.Clone(job), identity...), // the namespace has a ';'
	} {
		got := placed(g).arguments(version)
		if text := got["CONSUL_IPTABLES_CONFIG"]; (text != "") != version.Has(ignoreUnknown) || text != "" && !strings.Contains(text, `"NetNS":"/var/run/netns/x"`) {
			t.Errorf("%s: the rules are %q", version, text)
		}
		delete(got, "CONSUL_IPTABLES_CONFIG")
		var pairs []string
		for _, key := range slices.Sorted(maps.Keys(got)) {
			pairs = append(pairs, key+"="+got[key])
		}
		slices.Sort(want)
		slices.Sort(pairs)
		if diff := cmp.Diff(want, pairs); diff != "" {
			t.Errorf("%s: %s", version, diff)
		}
	}
}

func TestAdmit(t *testing.T) {
	with := func(key, value string) Network {
		return Network{Mode: "cni/multi", Args: map[string]string{key: value}}
	}
	for name, test := range map[string]struct {
		group Group
		since nomad.Version
		never bool
	}{
		"no arguments":         {group: Group{Networks: []Network{{Mode: "cni/multi"}}}, since: Real},
		"arguments":            {group: Group{Networks: []Network{with("a.b/c", "[=]")}}, since: nomad.JobArguments},
		"in two blocks":        {group: Group{Networks: []Network{with("a", ""), with("b", "")}}, since: nomad.JobArguments},
		"twice":                {group: Group{Networks: []Network{with("a", ""), with("a", "")}}, never: true},
		"a separator":          {group: Group{Networks: []Network{with("a", "b;c")}}, never: true},
		"mesh":                 {group: Group{Connect: true, Networks: []Network{with("a", "")}}, since: ConnectOnCNI},
		"mesh with two blocks": {group: Group{Connect: true, Networks: []Network{with("a", ""), {}}}, never: true},
	} {
		for _, version := range append(Versions(), Real) {
			if err := admit(version, test.group); (err == nil) != (!test.never && version.Has(test.since)) {
				t.Errorf("%s in %s: %v", name, version, err)
			}
		}
	}
}

func TestReplaces(t *testing.T) {
	group := func(mode, value string) Group {
		return Group{Networks: []Network{{Mode: mode, Args: map[string]string{"networks": value}}}}
	}
	for _, version := range Versions() {
		if replaces(version, group("a", "b"), group("a", "b")) || !replaces(version, group("a", "b"), group("c", "b")) {
			t.Errorf("%s: want that a change of the mode alone replaces", version)
		}
		if got := replaces(version, group("a", "b"), group("a", "c")); got != version.Has(argumentsReplace) {
			t.Errorf("%s: a change of the arguments replaces: %t", version, got)
		}
	}
}
