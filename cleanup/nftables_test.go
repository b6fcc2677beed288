// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestRootNFTables: rules are listed with the addresses of the allocation, and removed with chains. What is gone is no error, a rule
// that has the handle of another one by then stays, and one that has another handle by then is removed.
func TestRootNFTables(t *testing.T) {
	roottest.Require(t)
	empty, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	vendor := nftTable{family: netfilter.INet, name: "vendor", chains: []string{"marks", "none"}, own: ownChains{prefix: "own-"}}
	err = empty.Do(func() error {
		rules, chains, err := system{}.listNFTables(t.Context(), vendor)
		if len(rules)+len(chains) > 0 || err != nil {
			t.Errorf("without the table: %v, %v, %v", rules, chains, err)
		}
		sandbox.Run(t, "nft", strings.Join([]string{
			"table inet other { chain own-3 { }; }",
			"table inet vendor {",
			"chain own-1 { accept; }",
			"chain own-2 { }",
			"chain marks {",
			"ip saddr 10.0.0.2 ip daddr != 10.0.0.0/24 counter comment \"one\"",
			"ip6 saddr fd00::2 jump own-1 comment \"two\"",
			"ip6 saddr fd00::4 drop comment \"two\"",
			"ip saddr 10.0.0.0/24 ip saddr != 10.0.0.9 ip daddr 10.0.0.8 jump own-2",
			"}",
			"chain nat {",
			"type nat hook prerouting priority 0;",
			"tcp dport 80 dnat ip to 10.0.0.3:8080 comment \"nat\"",
			"tcp dport 80 dnat ip6 to [fd00::3]:8080 comment \"nat\"",
			"}",
			"}",
		}, "\n"))
		vendor.chains = append(vendor.chains, "nat")
		rules, chains, err = system{}.listNFTables(t.Context(), vendor)
		var got []string
		for _, r := range rules {
			var addresses []string
			for _, a := range r.addresses {
				addresses = append(addresses, a.String())
			}
			got = append(got, r.chain+" "+r.comment+" "+strings.Join(addresses, ","))
		}
		want := []string{"marks one 10.0.0.2", "marks two fd00::2", "marks two fd00::4", "marks  ", "nat nat 10.0.0.3", "nat nat fd00::3"}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("%v, rules: %s", err, diff)
		}
		if diff := cmp.Diff([]string{"own-1", "own-2", "marks", "nat"}, chains); diff != "" {
			t.Errorf("chains: %s", diff)
		}
		two, own := Object{nft: &nftObject{vendor, rules[1], false}}, Object{nft: &nftObject{vendor, nftRule{chain: "own-1"}, true}}
		used, gone := Object{nft: &nftObject{vendor, nftRule{chain: "own-2"}, true}}, Object{nft: &nftObject{vendor, nftRule{chain: "own-9"}, true}}
		renamed := Object{nft: &nftObject{vendor, nftRule{chain: "marks", comment: "another", handle: rules[0].handle}, false}}
		objects := []Object{own, used, gone, two, renamed} // rules go first
		for i, err := range vendor.remove(t.Context(), system{}, objects) {
			if inUse := objects[i].nft.chain == "own-2"; inUse != errors.Is(err, unix.EBUSY) || !inUse && err != nil {
				t.Errorf("%+v: %v, want EBUSY of own-2, and no other error", objects[i].nft.nftRule, err)
			}
		}
		if errs := vendor.remove(t.Context(), system{}, []Object{own, gone, two}); errors.Join(errs...) != nil {
			t.Errorf("again: %v", errs)
		}
		rules, chains, err = system{}.listNFTables(t.Context(), vendor)
		if err != nil || len(rules) != 5 || rules[0].comment != "one" || rules[1].comment != "two" || rules[2].comment != "" || strings.Join(chains, " ") != "own-2 marks nat" {
			t.Errorf("left are %v and %v, %v", rules, chains, err)
		}
		sandbox.Run(t, "sh", "-c", `rules=$(nft list ruleset) && nft flush ruleset && echo "$rules" | nft -f -`)
		one := Object{nft: &nftObject{vendor, rules[0], false}}
		err = errors.Join(vendor.remove(t.Context(), system{}, []Object{one})...)
		if rules, _, _ = (system{}).listNFTables(t.Context(), vendor); err != nil || len(rules) != 4 || rules[0].comment == "one" {
			t.Errorf("after the rules were loaded anew: left are %v, %v", rules, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRootRemoveAlike: of rules that are alike the one with the handle is removed. After a reload, which gives all other handles, each
// object is one of them.
func TestRootRemoveAlike(t *testing.T) {
	roottest.Require(t)
	empty, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	vendor := nftTable{family: netfilter.INet, name: "vendor", chains: []string{"marks"}}
	err = empty.Do(func() error {
		alike := "ip saddr 10.0.0.2 counter comment \"one\"\n"
		sandbox.Run(t, "nft", "table inet vendor { chain marks {\n"+strings.Repeat(alike, 4)+"}; }")
		for _, step := range []struct {
			remove []int
			stale  uint64
			want   []int
		}{{[]int{1}, 0, []int{0, 2, 3}}, {[]int{0, 1}, 1000, []int{2}}} {
			rules, _, err := system{}.listNFTables(t.Context(), vendor)
			if err != nil {
				return err
			}
			var objects []Object
			for _, at := range step.remove {
				o := Object{nft: &nftObject{vendor, rules[at], false}}
				o.nft.handle += step.stale
				objects = append(objects, o)
			}
			if err := (system{}).removeNFTables(t.Context(), vendor, objects); err != nil {
				return err
			}
			left, _, err := system{}.listNFTables(t.Context(), vendor)
			if err != nil || len(left) != len(step.want) {
				t.Fatalf("%d rules are left, want %d: %v", len(left), len(step.want), err)
			}
			for i, at := range step.want {
				if left[i].handle != rules[at].handle {
					t.Errorf("rule %d of those that are left has the handle %d, want %d", i, left[i].handle, rules[at].handle)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRemoveUnlisted: what cannot be listed is not taken for removed.
func TestRemoveUnlisted(t *testing.T) {
	ctx, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer stop()
	vendor := nftTable{family: netfilter.INet, name: "vendor", chains: []string{"marks"}}
	for name, o := range map[string]*nftObject{
		"chain": {vendor, nftRule{chain: "own-1"}, true},
		"rule":  {vendor, nftRule{chain: "marks", comment: "one", handle: 7}, false},
	} {
		if err := (system{}).removeNFTables(ctx, vendor, []Object{{nft: o}}); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
