// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"
	"sigs.k8s.io/knftables"

	"github.com/allocnet/allocnet/internal/inprocess"
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
	// chains are those that the kernel tells, by "legacy", or family and table of nftables.
	chains map[string][]string
	// rules are those that searchRules finds, by family, table and chain: their comments or addresses.
	rules     map[string][]string
	sources   []inprocess.Source
	tables    map[string]*knftables.Fake
	linkTypes map[string]string
	// macs are those of links; one that is not there has any.
	macs       map[string]string
	namespaced map[string]*fakeNamespace
	// opened is called before a namespace is opened. Nil: not called.
	opened func(path string)
	calls  []string
}

func newFakeSystem() *fakeSystem {
	return &fakeSystem{
		saved: map[string]string{}, errs: map[string]error{}, tables: map[string]*knftables.Fake{},
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
	if name == "nft" {
		return len(f.tables) > 0
	}
	_, ok := f.saved[name]
	return ok
}

// errHangs has a program run until its context ends.
var errHangs = errors.New("it hangs")

func (f *fakeSystem) run(ctx context.Context, stdin, name string, args ...string) (string, error) {
	err := f.call(name, stdin)
	if name == "nft" {
		if failed := f.errs["nft "+args[5]]; failed != nil {
			return "", failed
		}
		return f.listTable(ctx, args[4], args[5])
	}
	if errors.Is(err, errHangs) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	if strings.HasSuffix(name, "-restore") && f.refuse != nil && f.refuse(stdin) {
		err = errFake
	}
	return f.saved[strings.TrimSuffix(name, "-save")], err
}

func (f *fakeSystem) legacyTables(string) ([]byte, error) {
	return []byte(f.legacy), f.errs["legacy tables"]
}

func (f *fakeSystem) legacyChains(_ context.Context, family knftables.Family, _ string) ([]string, error) {
	return f.chains["legacy "+string(family)], f.errs["legacy chains"]
}

func (f *fakeSystem) nftChains(_ context.Context, family knftables.Family, table string) ([]string, error) {
	return f.chains[strings.TrimSpace(string(family)+" "+table)], f.errs["nft chains"]
}

func (f *fakeSystem) searchRules(_ context.Context, searches []netfilter.RuleSearch) ([]bool, error) {
	found := make([]bool, len(searches))
	for i, s := range searches {
		found[i] = slices.ContainsFunc(f.rules[s.Family+" "+s.Table+" "+s.Chain], func(rule string) bool {
			return (s.Comment == nil || s.Comment(rule)) && (!s.Address.IsValid() || rule == s.Address.String())
		})
	}
	return found, f.errs["search rules"]
}

func (f *fakeSystem) findSources(_ context.Context, wanted []inprocess.Source) (found []inprocess.Source, err error) {
	for _, s := range wanted {
		if slices.Contains(f.sources, s) {
			found = append(found, s)
		}
	}
	return found, f.errs["find sources"]
}

func (f *fakeSystem) removeSource(_ context.Context, removed inprocess.Source) error {
	if err := f.errs["remove source"]; err != nil {
		return err
	}
	f.sources = slices.DeleteFunc(f.sources, func(s inprocess.Source) bool { return s == removed })
	return nil
}

func (f *fakeSystem) nftables(family knftables.Family, table string) (knftables.Interface, error) {
	fake, ok := f.tables[fmt.Sprintf("%s %s", family, table)]
	if !ok {
		return nil, fmt.Errorf("nft: %w", exec.ErrNotFound)
	}
	if err := f.errs["nft "+table]; err != nil {
		return nil, err
	}
	return fake, nil
}

// listTable prints a table as nft does.
func (f *fakeSystem) listTable(ctx context.Context, family, name string) (string, error) {
	fake, ok := f.tables[family+" "+name]
	if !ok {
		return "", errors.New("nft: exit status 1: Error: No such file or directory")
	}
	chains, err := fake.List(ctx, "chains")
	items := []map[string]any{{"metainfo": map[string]any{"json_schema_version": 1}}}
	for _, chain := range chains {
		items = append(items, map[string]any{"chain": map[string]any{"name": chain}})
		rules, failed := fake.ListRules(ctx, chain)
		err = errors.Join(err, failed)
		for _, r := range rules {
			items = append(items, map[string]any{"rule": map[string]any{"chain": chain, "comment": r.Comment, "handle": r.Handle}})
		}
	}
	data, failed := json.Marshal(map[string]any{"nftables": items})
	return string(data), errors.Join(err, failed)
}

// addTable makes a table of nftables with rules of the given comments.
func (f *fakeSystem) addTable(t *testing.T, family knftables.Family, table, chain string, comments ...string) *knftables.Fake {
	t.Helper()
	fake := knftables.NewFake(family, table)
	tx := fake.NewTransaction()
	tx.Add(&knftables.Table{})
	tx.Add(&knftables.Chain{Name: chain})
	for _, comment := range comments {
		tx.Add(&knftables.Rule{Chain: chain, Rule: "counter", Comment: &comment})
	}
	if err := fake.Run(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	f.tables[fmt.Sprintf("%s %s", family, table)] = fake
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

func (f *fakeSystem) deleteFlows(family netlink.InetFamily, filters []netlink.CustomConntrackFilter) error {
	return f.call("delete flows", family, len(filters))
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
	return ns, f.errs["open namespace"]
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

func (n *fakeNamespace) Close() error { return nil }

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
