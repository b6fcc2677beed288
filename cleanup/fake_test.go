// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/allocnet/allocnet/internal/inprocess/firewall"
	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/netns"
)

// fakeSystem is a host in memory: its calls are recorded, and fail on demand.
type fakeSystem struct {
	mu sync.Mutex
	// saved is what iptables-save prints, by program.
	saved map[string]string
	// errs are the errors of calls, by the name that calls have.
	errs map[string]error
	// refuse is whether a transaction fails. Nil: none does.
	refuse func(text string) bool
	// legacy is the kernel's list of legacy tables.
	legacy string
	// chains are those that the kernel tells, by "legacy" and family, or family of nftables.
	chains map[string][]string
	// rules are those that searchRules finds, by family, table and chain: their comments or addresses.
	rules     map[string][]string
	sources   []firewall.Source
	flows     []netfilter.Flow
	tables    map[string]*fakeTable
	linkTypes map[string]string
	// macs are those of links; one that is not there has any.
	macs       map[string]string
	namespaced map[string]*fakeNamespace
	// opened is called before a namespace is opened. Nil: not called.
	opened func(path string)
	// held counts the namespaces that are open.
	held  atomic.Int32
	calls []string
}

func newFakeSystem() *fakeSystem {
	return &fakeSystem{
		saved: map[string]string{}, errs: map[string]error{}, tables: map[string]*fakeTable{},
		linkTypes: map[string]string{}, namespaced: map[string]*fakeNamespace{},
	}
}

func (f *fakeSystem) host(c catalog) *host { return &host{catalog: c, programs: f, kernel: f} }

// call records a call and returns its error.
func (f *fakeSystem) call(name string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, strings.TrimSpace(name+" "+fmt.Sprintln(args...)))
	return f.errs[name]
}

// made tells whether a call was made.
func (f *fakeSystem) made(call string) bool {
	return slices.ContainsFunc(f.calls, func(c string) bool { return strings.Contains(c, call) })
}

func (f *fakeSystem) installed(name string) bool {
	_, ok := f.saved[name]
	return ok
}

// errHangs has a program run until its context ends.
var errHangs = errors.New("it hangs")

func (f *fakeSystem) run(ctx context.Context, stdin, name string, _ ...string) (string, error) {
	err := f.call(name, stdin)
	if errors.Is(err, errHangs) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	if strings.HasSuffix(name, "-restore") && f.refuse != nil && f.refuse(stdin) {
		err = errFake
	}
	return f.saved[strings.TrimSuffix(name, "-save")], err
}

func (f *fakeSystem) legacyTables(netfilter.Family) ([]string, error) {
	return strings.Fields(f.legacy), f.errs["legacy tables"]
}

func (f *fakeSystem) legacyChains(_ context.Context, family netfilter.Family) ([]string, error) {
	return f.chains["legacy "+string(family)], f.errs["legacy chains"]
}

func (f *fakeSystem) nftChains(_ context.Context, family netfilter.Family) ([]string, error) {
	return f.chains[string(family)], f.errs["nft chains"]
}

func (f *fakeSystem) searchRules(_ context.Context, searches []netfilter.RuleSearch) ([]bool, error) {
	found := make([]bool, len(searches))
	for i, s := range searches {
		found[i] = slices.ContainsFunc(f.rules[string(s.Family)+" "+s.Table+" "+s.Chain], func(rule string) bool {
			return (s.Comment == nil || s.Comment(rule)) && (!s.Address.IsValid() || rule == s.Address.String())
		})
	}
	return found, f.errs["search rules"]
}

func (f *fakeSystem) findSources(_ context.Context, wanted []firewall.Source) (found []firewall.Source, err error) {
	for _, s := range wanted {
		if slices.Contains(f.sources, s) {
			found = append(found, s)
		}
	}
	return found, f.errs["find sources"]
}

func (f *fakeSystem) removeSource(_ context.Context, removed firewall.Source) error {
	if err := f.errs["remove source"]; err != nil {
		return err
	}
	f.sources = slices.DeleteFunc(f.sources, func(s firewall.Source) bool { return s == removed })
	return nil
}

// fakeTable is one of nftables.
type fakeTable struct {
	chains []string
	rules  []nftRule
}

// String has the names of chains and the comments of rules.
func (t *fakeTable) String() string {
	text := strings.Join(t.chains, " ")
	for _, r := range t.rules {
		text += " " + r.comment
	}
	return text
}

func (t *fakeTable) add(chain, comment string) {
	if !slices.Contains(t.chains, chain) {
		t.chains = append(t.chains, chain)
	}
	if comment != "" {
		t.rules = append(t.rules, nftRule{chain: chain, comment: comment, handle: uint64(len(t.rules) + 1)})
	}
}

func (f *fakeSystem) listNFTables(_ context.Context, t nftTable) (rules []nftRule, chains []string, err error) {
	table, ok := f.tables[string(t.family)+" "+t.name]
	if !ok {
		return nil, nil, f.errs["nft "+t.name]
	}
	rules = slices.DeleteFunc(slices.Clone(table.rules), func(r nftRule) bool { return !slices.Contains(t.chains, r.chain) })
	return rules, table.chains, f.errs["nft "+t.name]
}

func (f *fakeSystem) removeNFTables(_ context.Context, t nftTable, objects []Object) error {
	table := f.tables[string(t.family)+" "+t.name]
	var removed []string
	for _, o := range objects {
		removed = append(removed, o.nft.chain+" "+o.nft.comment)
	}
	if err := f.call("nft "+t.name, strings.Join(removed, "; ")); err != nil {
		return err
	}
	for _, o := range objects {
		if f.refuse != nil && f.refuse(strings.Join(removed, "; ")) {
			return errFake
		}
		table.rules = slices.DeleteFunc(table.rules, func(r nftRule) bool {
			return r.chain == o.nft.chain && (o.nft.whole || r.handle == o.nft.handle)
		})
		if o.nft.whole {
			table.chains = slices.DeleteFunc(table.chains, func(name string) bool { return name == o.nft.chain })
		}
	}
	return nil
}

// addTable makes a table of nftables with rules of the given comments.
func (f *fakeSystem) addTable(family netfilter.Family, table, chain string, comments ...string) *fakeTable {
	fake := &fakeTable{chains: []string{chain}}
	for _, comment := range comments {
		fake.add(chain, comment)
	}
	f.tables[string(family)+" "+table] = fake
	return fake
}

func (f *fakeSystem) links(linkType string) ([]string, error) {
	var names []string
	for name, t := range f.linkTypes {
		if t == linkType {
			names = append(names, name)
		}
	}
	return names, f.errs["links"]
}

func (f *fakeSystem) findLink(name, linkType, mac string) (string, error) {
	own, known := f.macs[name]
	if f.linkTypes[name] == linkType && (mac == "" || !known || own == mac) {
		return name, f.errs["find link"]
	}
	for other, own := range f.macs {
		if mac != "" && netns.IsPluginVeth(name) && own == mac && f.linkTypes[other] == linkType {
			return other, f.errs["find link"]
		}
	}
	return "", f.errs["find link"]
}

func (f *fakeSystem) removeLink(name, linkType, mac string) error {
	if mac != "" {
		return f.call("remove link", linkType, name, mac)
	}
	return f.call("remove link", linkType, name)
}

func (f *fakeSystem) forgetFlows(_ context.Context, wanted func(netfilter.Flow) bool) error {
	for _, flow := range f.flows {
		if wanted(flow) {
			if err := f.call("forget flow", flow.Original.DestinationPort, flow.Reply.Source); err != nil {
				return err
			}
		}
	}
	return nil
}

// procfs is opened when the namespaces are listed.
const procfs = "/proc"

func (f *fakeSystem) namespaces() ([]netns.Place, error) {
	if f.opened != nil {
		f.opened(procfs)
	}
	var places []netns.Place
	for path, ns := range f.namespaced {
		place := netns.Place{Path: path, Inode: ns.Inode()}
		if strings.HasPrefix(path, netns.DefaultDir) {
			place.Mounts = []string{path}
		}
		for _, prefix := range ns.addresses {
			place.Addresses = append(place.Addresses, prefix.Addr())
		}
		places = append(places, place)
	}
	return places, f.errs["namespaces"]
}

func (f *fakeSystem) open(path string) (namespace, error) {
	if f.opened != nil {
		f.opened(path)
	}
	ns, ok := f.namespaced[path]
	if !ok {
		return nil, &netns.MissingError{Path: path, Reason: "it is gone"}
	}
	if err := f.errs["open namespace"]; err != nil {
		return nil, err
	}
	f.held.Add(1)
	return ns, nil
}

func (f *fakeSystem) exists(path string) bool { return f.namespaced[path] != nil }

// fakeNamespace is a network namespace with one interface.
type fakeNamespace struct {
	system    *fakeSystem
	id        string
	addresses []netip.Prefix
}

func (f *fakeSystem) addNamespace(path, id, prefix string) {
	f.namespaced[path] = &fakeNamespace{f, id, []netip.Prefix{netip.MustParsePrefix(prefix)}}
}

func (n *fakeNamespace) ID() string { return n.id }

func (n *fakeNamespace) Inode() uint64 {
	inode, _ := strconv.ParseUint(n.id, 10, 64)
	return inode
}

func (n *fakeNamespace) RemoveInterface(name string) error {
	return n.system.call("remove interface", name)
}

func (n *fakeNamespace) ReturnDevice(d netns.Device) error {
	return n.system.call("return device", d.Name, d.Interface, d.MAC)
}

func (f *fakeSystem) restoreDevice(d netns.Device) error {
	return f.call("restore device", d.Name, d.Interface, d.MAC)
}

func (n *fakeNamespace) Close() error {
	n.system.held.Add(-1)
	return nil
}

var errFake = errors.New("out of order")

// writeFile makes a file with its directory.
func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(path[:strings.LastIndex(path, "/")], 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
