// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var samePrefix = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })

// encodedRules are rules with everything in them.
var encodedRules = Rules{
	File: "/etc/allocnet/isolation.hcl",
	Allow: []Allow{
		{"web reaches db", 1, Selector{Namespace: "prod", Job: "web"}, Selector{Group: "g", Network: "n*"}, []Ports{{"tcp", 5432, 5432}, {"udp", 1, 65535}, {"icmp", 0, 0}}},
		{"é", 300, Selector{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("::/0")}}, Selector{}, nil},
		{"host", 9, Selector{Host: true}, Selector{Job: "db", Namespace: "prod"}, []Ports{{"tcp", 22, 22}}},
	},
	Egress: []Egress{
		{"batch", 7, Selector{Job: "batch", Namespace: "*"}, Selector{CIDRs: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}, []Ports{{"sctp", 0, 0}}, true},
		{"idle", 1 << 20, Selector{Job: "idle"}, Selector{Network: noNetwork}, nil, false},
	},
}

// TestEncode: rules are the same ones after they were encoded and read. What is damaged is an error: no prefix of it is other rules.
func TestEncode(t *testing.T) {
	for _, rules := range []Rules{{}, {File: "f"}, encodedRules} {
		data, err := rules.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		var read Rules
		if err := read.UnmarshalBinary(data); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(rules, read, samePrefix); diff != "" {
			t.Error(diff)
		}
		for end := range data {
			if err := read.UnmarshalBinary(data[:end]); err == nil {
				t.Errorf("the first %d bytes of %d are read", end, len(data))
			}
		}
		if err := read.UnmarshalBinary(append(data, 0)); err == nil {
			t.Error("a byte more is read")
		}
	}
}

// TestDecodeSome: of encoded rules those are read of which a selector is wanted. What is damaged is an error, also behind these.
func TestDecodeSome(t *testing.T) {
	data, err := encodedRules.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	isOf := func(job string) func(from, to *Selector) bool {
		return func(from, to *Selector) bool { return from.Job == job || to.Job == job }
	}
	for job, want := range map[string]Rules{
		"web": {Allow: encodedRules.Allow[:1]}, "db": {Allow: encodedRules.Allow[2:]}, "batch": {Egress: encodedRules.Egress[:1]}, "idle": {Egress: encodedRules.Egress[1:]}, "none": {},
	} {
		var read Rules
		want.File = encodedRules.File
		if err := read.UnmarshalSome(data, isOf(job)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, read, samePrefix); diff != "" {
			t.Errorf("of %s: %s", job, diff)
		}
		for end := range data {
			if err := read.UnmarshalSome(data[:end], isOf(job)); err == nil {
				t.Errorf("of %s the first %d bytes of %d are read", job, end, len(data))
			}
		}
	}
}

// TestDecodeDamaged: with any byte another one, reading ends, and what is read is the same after it was encoded and read again.
func TestDecodeDamaged(t *testing.T) {
	data, err := encodedRules.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	for at := range data {
		for _, other := range []byte{0, 1, 0x7f, 0x80, 0xff, data[at] + 1, data[at] - 1} {
			damaged := slices.Clone(data)
			damaged[at] = other
			var first, again Rules
			if first.UnmarshalBinary(damaged) != nil {
				continue
			}
			encoded, err := first.AppendBinary(nil)
			if err == nil {
				err = again.UnmarshalBinary(encoded)
			}
			if diff := cmp.Diff(first, again, samePrefix); diff != "" || err != nil {
				t.Errorf("byte %d as %d: %s, %v", at, other, diff, err)
			}
		}
	}
}
