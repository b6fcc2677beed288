// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"errors"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/state"
)

// TestTransactionFails: then what is still listed of each object is removed by itself, and only what
// fails again is left.
func TestTransactionFails(t *testing.T) {
	const incompatible = "# Table `nat' is incompatible, use 'nft' tool.\n# Table `filter' is incompatible, use 'nft' tool.\n"
	jump := "-j " + masqueradeChain(a1)
	for name, test := range map[string]struct {
		// listed is what the host has after the transaction has failed.
		listed string
		errs   map[string]error
		// refuse refuses a transaction.
		refuse func(text string) bool
		failed int
	}{
		"the host has changed":      {listed: strings.Join(slices.DeleteFunc(strings.SplitAfter(listing, "\n"), func(line string) bool { return strings.Contains(line, jump) }), ""), refuse: func(text string) bool { return strings.Contains(text, jump) }},
		"all is gone":               {refuse: func(string) bool { return true }},
		"a rule stays":              {listed: listing, refuse: func(text string) bool { return strings.Contains(text, jump) }, failed: 1},
		"nothing can be changed":    {listed: listing, refuse: func(string) bool { return true }, failed: 4},
		"nothing can be listed":     {listed: listing, errs: map[string]error{"iptables-nft-save": errFake}, refuse: func(string) bool { return true }, failed: 4},
		"what is there is unknown":  {errs: map[string]error{"iptables-nft-save": errFake}, refuse: func(text string) bool { return strings.Contains(text, jump) }, failed: 4},
		"tables that are not shown": {listed: incompatible, refuse: func(string) bool { return true }, failed: 4},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeSystem()
			f.saved["iptables-nft"] = listing
			found, err := scanner{cacheDir: t.TempDir(), host: f.host(catalogue.within(t.TempDir()))}.scan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			objects, err := found.objectsOf([]state.Leftover{leftover(`{"type": "bridge"}`)})
			if err != nil {
				t.Fatal(err)
			}
			f.saved["iptables-nft"], f.refuse, f.errs = test.listed, test.refuse, test.errs
			failures := found.remove(t.Context(), objects)
			listings := slices.DeleteFunc(slices.Clone(f.calls), func(call string) bool { return call != "iptables-nft-save" })
			if test.failed == 4 && len(listings) != 1+removalAttempts { // the first is that of the scan
				t.Errorf("listed %d times", len(listings))
			}
			if len(objects) != 4 || len(failures) != test.failed {
				t.Errorf("of %d objects failed %v, want %d of 4", len(objects), failures, test.failed)
			}
			for _, f := range failures {
				if !errors.Is(f, errFake) {
					t.Errorf("%v, want the cause", f)
				}
			}
		})
	}
}

// TestSecondAttempt: while what is left of an object is removed, another process removes a part of it.
func TestSecondAttempt(t *testing.T) {
	f := newFakeSystem()
	const jump = "-A POSTROUTING -s 10.0.0.2/32 -j CNI-a"
	f.saved["iptables-nft"] = "*nat\n:CNI-a - [0:0]\n" + jump + "\nCOMMIT\n"
	f.refuse = func(string) bool {
		if len(f.calls) > 1 { // the first one was for all objects
			f.saved["iptables-nft"] = "*nat\n:CNI-a - [0:0]\nCOMMIT\n"
		}
		return len(f.calls) < 4
	}
	o := Object{chain: &chain{table: "nat", name: "CNI-a", rules: []rule{{line: jump}}}}
	errs := backends[0].remove(t.Context(), f, []Object{o})
	if want := "iptables-nft-restore *nat\n:CNI-a - [0:0]\n-X CNI-a\nCOMMIT"; errs[0] != nil || len(f.calls) != 5 || f.calls[4] != want {
		t.Errorf("%v after the calls %q, want %q last", errs, f.calls, want)
	}
}

// TestNFTables: rules go before chains, in one transaction; where that fails, each is removed by itself.
func TestNFTables(t *testing.T) {
	f := newFakeSystem()
	rules := f.addTable("ip", "cni_hostport", "hostports", "a1", "a1", "a2")
	scan := func() (*scanResult, error) {
		return scanner{cacheDir: t.TempDir(), host: f.host(catalogue.within(t.TempDir()))}.scan(t.Context())
	}
	found, err := scan()
	if err != nil || len(found.Objects) != 3 {
		t.Fatalf("%+v, %v, want three rules", found.Objects, err)
	}
	f.refuse = func(text string) bool { return strings.Contains(text, ";") }
	if failures := found.remove(t.Context(), found.Objects[:2]); len(failures) != 0 || rules.String() != "hostports a2" || len(f.calls) < 3 {
		t.Errorf("failures %v, left are %s after the calls %q", failures, rules, f.calls)
	}
	f.refuse, f.calls = nil, nil
	table := found.Objects[2].nft.table
	together := []Object{{nft: &nftObject{table, nftRule{chain: "first"}, true}}, {nft: &nftObject{table, nftRule{chain: "second"}, true}}, found.Objects[2]}
	errs := table.remove(t.Context(), f, together)
	if diff := cmp.Diff([]string{"nft cni_hostport hostports a2; first ; second"}, f.calls); diff != "" || errors.Join(errs...) != nil {
		t.Errorf("%v: %s", errs, diff)
	}
	f.errs["nft cni_hostport"] = errFake
	if failures := found.remove(t.Context(), found.Objects); len(failures) != 3 || !errors.Is(failures[0], errFake) {
		t.Errorf("failures %v, want three", failures)
	}
	if _, err := scan(); !errors.Is(err, errFake) {
		t.Errorf("scan: %v, want the error", err)
	}
}

// TestCacheGoesLast: libcni's cached result stays as long as an object of the
// allocation does, for it shows the owner.
func TestCacheGoesLast(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "results", "web-a1-eth0")
	for name, test := range map[string]struct {
		err  error
		kept bool
	}{
		"link stays":   {errFake, true},
		"link is gone": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			writeFile(t, path, `{"containerId": "a1", "networkName": "web", "ifName": "eth0"}`)
			f := newFakeSystem()
			f.linkTypes[ifbDevice(a1)] = "ifb"
			f.errs["remove link"] = test.err
			c := Cleaner{CacheDir: dir, host: f.host(catalogue.within(t.TempDir()))}
			err := c.Clean(t.Context(), []state.Leftover{leftover(`{"type": "bandwidth"}`)})[0]
			if errors.Is(err, errFake) != test.kept || exists(path) != test.kept {
				t.Errorf("%v, the cached result is there: %v, want %v", err, exists(path), test.kept)
			}
		})
	}
}

// TestAddressOfAnother: rules of an address that another namespace uses by now
// stay.
func TestAddressOfAnother(t *testing.T) {
	f := newFakeSystem()
	f.saved["iptables-nft"] = listing
	f.addNamespace("/run/netns/other", "2", "10.0.0.2/24")
	c := Cleaner{CacheDir: t.TempDir(), host: f.host(catalogue.within(t.TempDir()))}
	if errs := c.Clean(t.Context(), []state.Leftover{leftover(`{"type": "firewall"}`)}); errs[0] != nil {
		t.Error(errs[0])
	}
	if f.made("CNI-FORWARD") || !f.made("-X "+masqueradeChain(a1)) {
		t.Errorf("calls %q, want the chains removed, and the address's rules kept", f.calls)
	}
	f.errs["namespaces"] = errFake
	if errs := c.Clean(t.Context(), []state.Leftover{leftover(`{"type": "firewall"}`)}); !errors.Is(errs[0], errFake) {
		t.Errorf("%v, want the error: addresses in use are unknown", errs[0])
	}
}

// aFlow is one of UDP that DNAT has sent from a port to an address.
func aFlow(port uint16, to string) netfilter.Flow {
	return netfilter.Flow{Protocol: unix.IPPROTO_UDP, Original: netfilter.Direction{DestinationPort: port}, Reply: netfilter.Direction{Source: netip.MustParseAddr(to)}}
}

// TestPublishedFlows: the flows of recorded UDP ports go, also without rules.
func TestPublishedFlows(t *testing.T) {
	f := newFakeSystem()
	c := Cleaner{CacheDir: t.TempDir(), host: f.host(catalogue.within(t.TempDir()))}
	l := leftover(`{"type": "portmap"}`)
	l.Suspects[0].Attachment.CapabilityArgs = map[string]any{"portMappings": []map[string]any{
		{"hostPort": 53, "protocol": "UDP"}, {"hostPort": 80, "protocol": "tcp"}, {"hostPort": 123, "protocol": "udp"},
	}}
	f.flows = []netfilter.Flow{
		aFlow(53, "10.0.0.2"), aFlow(123, "10.0.0.2"), aFlow(53, "10.0.0.3"), aFlow(80, "10.0.0.2"),
	}
	if errs := c.Clean(t.Context(), []state.Leftover{l}); errs[0] != nil || !f.made("forget flow 53 10.0.0.2") || !f.made("forget flow 123 10.0.0.2") || f.made("10.0.0.3") || f.made("flow 80") {
		t.Errorf("%v, calls %q, want two flows of IPv4 forgotten", errs[0], f.calls)
	}
	f.errs["forget flow"] = errFake
	if errs := c.Clean(t.Context(), []state.Leftover{l}); !errors.Is(errs[0], errFake) {
		t.Errorf("%v, want the error", errs[0])
	}
	l.Suspects[0].Attachment.CapabilityArgs = map[string]any{"portMappings": "none"}
	if errs := c.Clean(t.Context(), []state.Leftover{l}); errs[0] != nil {
		t.Errorf("unreadable mappings, which no plugin could read: %v", errs[0])
	}
}
