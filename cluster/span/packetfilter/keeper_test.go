// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package packetfilter

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
)

// pool returns a pool of a mode with a subnet of each family.
func pool(t *testing.T, name, mode string) *ipam.Config {
	t.Helper()
	c, err := ipam.Parse([]byte(`{"pool": "` + name + `", "mode": "` + mode + `", "ranges": [{"subnet": "10.100.0.0/16"}, {"subnet": "fd00:100::/64"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fakeFacts are those of a host with two interfaces.
type fakeFacts struct {
	interfaces []string
	disabled   []string
	rejected   map[string]bool
}

func (f fakeFacts) Interfaces(*ipam.Config) []string { return slices.Clone(f.interfaces) }

func (f fakeFacts) Disabled(pools []*ipam.Config) []string {
	if len(pools) == 0 {
		return nil
	}
	return f.disabled
}

func (f fakeFacts) IsRejected(p netip.Prefix) bool { return f.rejected[p.String()] }

// exitError is that of a program.
type exitError int

func (e exitError) Error() string { return "exit" }
func (e exitError) ExitCode() int { return int(e) }

// fakeSystem notes what is executed, fails where it is told to, and shows what is on record meanwhile.
type fakeSystem struct {
	dir   string
	lines []string
	fail  map[string]error
	// uninstalled is whether there is no program of iptables.
	uninstalled bool
}

func (f *fakeSystem) hasIptables() bool { return !f.uninstalled }

func (f *fakeSystem) note(line string) error {
	if _, err := os.Stat(filepath.Join(f.dir, recordName)); err != nil && !strings.HasPrefix(line, "set ") {
		line += " (not on record)"
	}
	f.lines = append(f.lines, line)
	return f.fail[line]
}

func (f *fakeSystem) run(_ context.Context, stdin, name string, args ...string) (string, error) {
	if stdin != "" {
		stdin = "\n" + stdin
	}
	return "", f.note(name + " " + strings.Join(args, " ") + stdin)
}

func (f *fakeSystem) set(path, value string) error { return f.note("set " + path + "=" + value) }

// took returns what was executed since the last time.
func (f *fakeSystem) took() string {
	text := strings.Join(f.lines, "\n")
	f.lines = nil
	return text
}

func newKeeper(t *testing.T) (*Keeper, *fakeSystem) {
	t.Helper()
	k := New(Options{Dir: t.TempDir()})
	f := &fakeSystem{dir: k.o.Dir, fail: map[string]error{"firewall-cmd --permanent --zone=trusted --query-source=10.100.0.0/16": exitError(1), "firewall-cmd --permanent --zone=trusted --query-source=fd00:100::/64": exitError(1)}}
	k.system = f
	return k, f
}

// keep keeps the pools on a host with these rules.
func keep(t *testing.T, k *Keeper, facts fakeFacts, lines string, g Goal) {
	t.Helper()
	found := Found{facts, []cleanup.Listing{{Program: "iptables-nft", Text: save(lines)}, {Program: "ip6tables-legacy", IPv6: true, Text: "*nat\n:FORWARD ACCEPT [0:0]\nCOMMIT\n"}}, false}
	changed, err := k.Keep(t.Context(), found, g)
	if executed := len(k.system.(*fakeSystem).lines) > 0; err != nil || changed != executed {
		t.Errorf("changed %v, %v, want %v", changed, err, executed)
	}
}

// save is the output of iptables-save.
func save(lines string) string {
	return "*mangle\n:FORWARD ACCEPT [0:0]\n-A FORWARD -j x\nCOMMIT\n*filter\n:INPUT ACCEPT [0:0]\n" + lines + "\nCOMMIT\n"
}

func requireText(t *testing.T, what, got, want string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}

const (
	ruleEth0  = `-A ALLOCNET-FORWARD -s 10.100.0.0/16 -d 10.100.0.0/16 -i eth0 -m comment --comment "allocnet pool web" -j ACCEPT`
	rulePairs = `-A ALLOCNET-FORWARD -s 10.100.0.0/16 -d 10.100.0.0/16 -i veth+ -m comment --comment "allocnet pool web" -j ACCEPT`
	ruleOld   = `-A ALLOCNET-FORWARD -s 10.9.0.0/16 -d 10.9.0.0/16 -i vx-old -m comment --comment "allocnet pool old" -j ACCEPT`
	restored  = "iptables-nft-restore --noflush --wait=30\n*filter\n"
	declared  = restored + ":ALLOCNET-FORWARD - [0:0]\n"
	removed   = restored + "-X ALLOCNET-FORWARD\nCOMMIT\n"
	inserted  = "-I FORWARD -j ALLOCNET-FORWARD\n"
	present   = ":FORWARD DROP [0:0]\n:ALLOCNET-FORWARD - [0:0]\n-A FORWARD -j ALLOCNET-FORWARD\n-A FORWARD -j other\n"
)

// TestRules: the chain of iptables has the rules of the pools, and is called first. What is right is not
// touched, and what is not ours never.
func TestRules(t *testing.T) {
	web := Goal{Pools: []*ipam.Config{pool(t, "web", "auto")}}
	facts := fakeFacts{interfaces: []string{"eth0", `odd"+`}}
	for name, test := range map[string]struct {
		rules string
		goal  Goal
		want  string
	}{
		"new":                    {":FORWARD DROP [0:0]\n-A FORWARD -j other", web, declared + inserted + ruleEth0 + "\n" + rulePairs + "\nCOMMIT\n"},
		"there":                  {present + ruleEth0 + "\n" + rulePairs, web, ""},
		"no table":               {"", web, ""},
		"a rule is missing":      {present + ruleEth0, web, declared + "-D FORWARD -j ALLOCNET-FORWARD\n" + inserted + ruleEth0 + "\n" + rulePairs + "\nCOMMIT\n"},
		"not called":             {":FORWARD DROP [0:0]\n:ALLOCNET-FORWARD - [0:0]\n" + ruleEth0 + "\n" + rulePairs, web, declared + inserted + ruleEth0 + "\n" + rulePairs + "\nCOMMIT\n"},
		"not first":              {":FORWARD DROP [0:0]\n:ALLOCNET-FORWARD - [0:0]\n-A FORWARD -j other\n-A FORWARD -j ALLOCNET-FORWARD\n" + ruleEth0 + "\n" + rulePairs, web, declared + "-D FORWARD -j ALLOCNET-FORWARD\n" + inserted + ruleEth0 + "\n" + rulePairs + "\nCOMMIT\n"},
		"no pool":                {present + ruleEth0, Goal{}, declared + "-D FORWARD -j ALLOCNET-FORWARD\nCOMMIT\n\n" + removed},
		"an empty chain alone":   {":FORWARD DROP [0:0]\n:ALLOCNET-FORWARD - [0:0]\n-A FORWARD -j other", Goal{}, removed},
		"another order":          {present + rulePairs + "\n" + ruleEth0, web, ""},
		"called twice":           {present + "-A FORWARD -g ALLOCNET-FORWARD\n" + ruleEth0 + "\n" + rulePairs, web, declared + "-D FORWARD -j ALLOCNET-FORWARD\n-D FORWARD -g ALLOCNET-FORWARD\n" + inserted + ruleEth0 + "\n" + rulePairs + "\nCOMMIT\n"},
		"no pool, and no rule":   {":FORWARD DROP [0:0]\n-A FORWARD -j other", Goal{}, ""},
		"another pool is spared": {present + ruleEth0 + "\n" + rulePairs + "\n" + ruleOld, Goal{Pools: web.Pools, Spared: []string{"old"}}, ""},
		"a spared pool alone":    {present + ruleEth0 + "\n" + ruleOld, Goal{Spared: []string{"old"}}, declared + "-D FORWARD -j ALLOCNET-FORWARD\n" + inserted + ruleOld + "\nCOMMIT\n"},
	} {
		t.Run(name, func(t *testing.T) {
			k, f := newKeeper(t)
			keep(t, k, facts, test.rules, test.goal)
			requireText(t, "executed", f.took(), test.want)
			left := test.want != "" && !strings.Contains(test.want, "-X") || strings.Contains(name, "there") || strings.Contains(name, "order") || strings.Contains(name, "spared")
			if k.HasRecord() != left {
				t.Errorf("a record: %v, want %v", k.HasRecord(), left)
			}
		})
	}
}

// TestSources: firewalld gets the subnets that it rejects, and keeps those that it has from others.
func TestSources(t *testing.T) {
	k, f := newKeeper(t)
	web := Goal{Pools: []*ipam.Config{pool(t, "web", "auto")}}
	const command, permanent = "firewall-cmd --zone=trusted --", "firewall-cmd --permanent --zone=trusted --query-source=10.100.0.0/16"
	rejects, trusts := fakeFacts{rejected: map[string]bool{"10.100.0.0/16": true}}, fakeFacts{}
	keep(t, k, rejects, "", web)
	requireText(t, "at first", f.took(), command+"add-source=10.100.0.0/16")
	keep(t, k, trusts, "", web)
	requireText(t, "again", f.took(), "")
	keep(t, k, rejects, "", web)
	requireText(t, "after a reload", f.took(), command+"add-source=10.100.0.0/16")
	keep(t, k, trusts, "", Goal{Spared: []string{"web"}})
	requireText(t, "spared", f.took(), "")
	keep(t, k, trusts, "", Goal{Pools: []*ipam.Config{pool(t, "renamed", "auto")}})
	requireText(t, "with another name", f.took(), "")
	killed := filepath.Join(k.o.Dir, "."+recordName+".new") // a writer was
	if err := os.WriteFile(killed, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	keep(t, k, trusts, "", Goal{})
	requireText(t, "without the pool", f.took(), permanent+"\n"+command+"remove-source=10.100.0.0/16")
	keep(t, k, trusts, "", Goal{})
	requireText(t, "without anything", f.took(), "")
	if left, err := os.ReadDir(k.o.Dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestSourceIsGone: a source that firewalld does not have any more, or has in its files, is no failure to
// remove it; another failure keeps it on record.
func TestSourceIsGone(t *testing.T) {
	const query, remove = "firewall-cmd --permanent --zone=trusted --query-source=10.100.0.0/16", "firewall-cmd --zone=trusted --remove-source=10.100.0.0/16"
	for name, test := range map[string]struct {
		fail     map[string]error
		executed string
		left     bool
	}{
		"in its files":    {nil, query, false},
		"removed":         {map[string]error{query: exitError(1), remove: exitError(exitUnknownSource)}, query + "\n" + remove, false},
		"in another zone": {map[string]error{query: exitError(1), remove: exitError(exitZoneConflict)}, query + "\n" + remove, false},
		"not running":     {map[string]error{query: exitError(252), remove: exitError(exitNotRunning)}, query + "\n" + remove, false},
		"does not work":   {map[string]error{query: exitError(1), remove: exitError(254)}, query + "\n" + remove, true},
	} {
		t.Run(name, func(t *testing.T) {
			k, f := newKeeper(t)
			if err := k.writeRecord(record{Sources: []source{{"web", netip.MustParsePrefix("10.100.0.0/16")}}}); err != nil {
				t.Fatal(err)
			}
			f.fail = test.fail
			if _, err := k.Keep(t.Context(), Found{Facts: fakeFacts{}}, Goal{}); (err != nil) != test.left {
				t.Errorf("%v, want an error: %v", err, test.left)
			}
			requireText(t, "executed", f.took(), test.executed)
			if k.HasRecord() != test.left {
				t.Errorf("a record: %v, want %v", k.HasRecord(), test.left)
			}
		})
	}
}

// TestSettings: forwarding is enabled, and a failure stops nothing else.
func TestSettings(t *testing.T) {
	k, f := newKeeper(t)
	f.fail["set net/ipv4/ip_forward=1"] = errors.New("EROFS")
	facts := fakeFacts{disabled: []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"}, rejected: map[string]bool{"10.100.0.0/16": true}}
	_, err := k.Keep(t.Context(), Found{Facts: facts}, Goal{Pools: []*ipam.Config{pool(t, "web", "auto")}})
	if err == nil || err.Error() != "EROFS" {
		t.Errorf("error %v", err)
	}
	requireText(t, "executed", f.took(), "set net/ipv4/ip_forward=1\nset net/ipv6/conf/all/forwarding=1\nfirewall-cmd --zone=trusted --add-source=10.100.0.0/16")
}

// TestUnlisted: what could not be listed may still be there, and a damaged record says that something is.
func TestUnlisted(t *testing.T) {
	k, f := newKeeper(t)
	if err := os.WriteFile(k.recordPath(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, isPartial := range []bool{true, false} {
		if _, err := k.Keep(t.Context(), Found{Facts: fakeFacts{}, IsPartial: isPartial}, Goal{}); err != nil {
			t.Error(err)
		}
		if k.HasRecord() != isPartial {
			t.Errorf("partial %v: a record: %v", isPartial, k.HasRecord())
		}
	}
	requireText(t, "executed", f.took(), "")
}

// TestZoneConflict: a subnet that an operator has put into another zone is reported, and never taken for one of ours.
func TestZoneConflict(t *testing.T) {
	k, f := newKeeper(t)
	web := Goal{Pools: []*ipam.Config{pool(t, "web", "auto")}}
	f.fail["firewall-cmd --zone=trusted --add-source=10.100.0.0/16"] = exitError(exitZoneConflict)
	_, err := k.Keep(t.Context(), Found{Facts: fakeFacts{rejected: map[string]bool{"10.100.0.0/16": true}}}, web)
	if err == nil || k.HasRecord() {
		t.Errorf("%v, a record: %v", err, k.HasRecord())
	}
	f.fail["firewall-cmd --zone=trusted --add-source=10.100.0.0/16"] = exitError(254)
	_, err = k.Keep(t.Context(), Found{Facts: fakeFacts{rejected: map[string]bool{"10.100.0.0/16": true}}}, web)
	if err == nil || !k.HasRecord() {
		t.Errorf("after another failure: %v, a record: %v", err, k.HasRecord())
	}
}

// TestDamagedRecord: the subnets of pools that are known may be sources of ours.
func TestDamagedRecord(t *testing.T) {
	const query, remove = "firewall-cmd --permanent --zone=trusted --query-source=10.100.0.0/16", "firewall-cmd --zone=trusted --remove-source=10.100.0.0/16"
	web := Goal{Pools: []*ipam.Config{pool(t, "web", "auto")}, Known: map[string][]netip.Prefix{"web": {netip.MustParsePrefix("10.100.0.0/16")}}}
	for _, damage := range []string{"", "{", "\x00\x00"} {
		k, f := newKeeper(t)
		if err := os.WriteFile(k.recordPath(), []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		keep(t, k, fakeFacts{}, "", web)
		requireText(t, "with the pool", f.took(), "")
		keep(t, k, fakeFacts{}, "", Goal{})
		requireText(t, "without", f.took(), query+"\n"+remove)
		if k.HasRecord() {
			t.Error("a record is left")
		}
	}
}

// TestRestoreFails: rules of ours may be there, also as the chain that others lead to.
func TestRestoreFails(t *testing.T) {
	listings := []cleanup.Listing{{Program: "iptables-nft", Text: save(present + ruleEth0)}}
	flush := declared + "-D FORWARD -j ALLOCNET-FORWARD\nCOMMIT\n"
	for name, test := range map[string]struct {
		fails, executed, want string
	}{
		"all":       {flush, flush, "EBUSY"},
		"the chain": {removed, flush + "\n" + removed, "the chain ALLOCNET-FORWARD stays, empty: remove the rules of others that lead to it: EBUSY"},
	} {
		k, f := newKeeper(t)
		f.fail[test.fails] = errors.New("EBUSY")
		_, err := k.Keep(t.Context(), Found{Facts: fakeFacts{}, Listings: listings}, Goal{})
		requireText(t, name, f.took(), test.executed)
		if err == nil || err.Error() != test.want || !k.HasRecord() {
			t.Errorf("%s: %v, a record: %v", name, err, k.HasRecord())
		}
	}
}

// TestNoPrograms: what is on record is not forgotten where no program can list it.
func TestNoPrograms(t *testing.T) {
	for _, hasRules := range []bool{true, false} {
		k, f := newKeeper(t)
		f.uninstalled = true
		if err := k.writeRecord(record{HasRules: hasRules, Sources: []source{{"web", netip.MustParsePrefix("10.100.0.0/16")}}}); err != nil {
			t.Fatal(err)
		}
		_, err := k.Keep(t.Context(), Found{Facts: fakeFacts{}}, Goal{})
		if (err != nil) != hasRules || hasRules && !strings.Contains(err.Error(), "install iptables") || k.HasRecord() != hasRules {
			t.Errorf("rules %v: %v, a record: %v", hasRules, err, k.HasRecord())
		}
	}
}

// TestFormat: a record of each version is read. One of a later release stays, and nothing is changed.
func TestFormat(t *testing.T) {
	storetest.Golden(t, fmt.Sprintf("testdata/record-%d.json", recordVersion), &record{})
	k, f := newKeeper(t)
	for version := range recordVersion + 1 {
		golden, err := os.ReadFile(fmt.Sprintf("testdata/record-%d.json", version))
		if err := errors.Join(err, os.WriteFile(k.recordPath(), golden, 0o600)); err != nil {
			t.Fatal(err)
		}
		if r, err := k.readRecord(); err != nil || !r.HasRules || len(r.Sources) != 1 || r.isDamaged {
			t.Errorf("version %d: %+v, %v", version, r, err)
		}
	}
	later := fmt.Sprintf(`{"version":%d,"sources":{}}`, recordVersion+1)
	if err := os.WriteFile(k.recordPath(), []byte(later), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := k.Keep(t.Context(), Found{Facts: fakeFacts{}}, Goal{})
	if want := fmt.Sprintf("%s: version is %d, want at most %d", k.recordPath(), recordVersion+1, recordVersion); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if data, err := os.ReadFile(k.recordPath()); err != nil || string(data) != later || f.took() != "" {
		t.Errorf("the record is %s, %v", data, err)
	}
}
