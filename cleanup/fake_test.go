// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"
	"sigs.k8s.io/knftables"

	"github.com/allocnet/allocnet/internal/netns"
)

// fakeSystem is a host in memory: its calls are recorded, and fail on demand.
type fakeSystem struct {
	mu sync.Mutex
	// saved is what iptables-save prints, by program.
	saved map[string]string
	// errs are the errors of calls, by the name that calls have.
	errs map[string]error
	// legacy is the kernel's list of legacy tables.
	legacy     string
	tables     map[string]*knftables.Fake
	linkTypes  map[string]string
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
	_, ok := f.saved[name]
	return ok
}

// errHangs has a program run until its context ends.
var errHangs = errors.New("it hangs")

func (f *fakeSystem) run(ctx context.Context, stdin []byte, name string, _ ...string) (string, error) {
	err := f.call(name, string(stdin))
	if errors.Is(err, errHangs) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	return f.saved[strings.TrimSuffix(name, "-save")], err
}

func (f *fakeSystem) legacyTables(string) ([]byte, error) { return []byte(f.legacy), nil }

func (f *fakeSystem) iptables(b backend) (ruleRemover, error) { return f, f.errs["open "+b.name] }

func (f *fakeSystem) DeleteIfExists(table, chain string, rule ...string) error {
	return f.call("delete", table, chain, strings.Join(rule, " "))
}

func (f *fakeSystem) ChainExists(_, chain string) (bool, error) {
	return !strings.HasSuffix(chain, "gone"), f.errs["exists"]
}

func (f *fakeSystem) ClearAndDeleteChain(table, chain string) error {
	return f.call("clear", table, chain)
}

func (f *fakeSystem) nftables(family knftables.Family, table string) (knftables.Interface, error) {
	fake, ok := f.tables[fmt.Sprintf("%s %s", family, table)]
	if !ok {
		return nil, fmt.Errorf("nft: %w", exec.ErrNotFound)
	}
	return fake, f.errs["nft "+table]
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

func (f *fakeSystem) hasLink(name, linkType, _ string) bool { return f.linkTypes[name] == linkType }

func (f *fakeSystem) removeLink(name, linkType, _ string) error {
	return f.call("remove link", linkType, name)
}

func (f *fakeSystem) deleteFlows(family netlink.InetFamily, filters []netlink.CustomConntrackFilter) error {
	return f.call("delete flows", family, len(filters))
}

func (f *fakeSystem) namespaces() ([]string, error) {
	paths := []string{"/run/netns/ended"}
	for path := range f.namespaced {
		paths = append(paths, path)
	}
	return paths, f.errs["namespaces"]
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

func (n *fakeNamespace) Interfaces() ([]netns.Interface, error) {
	return []netns.Interface{{Name: "eth0", Addresses: n.addresses}}, n.system.errs["interfaces"]
}

func (n *fakeNamespace) RemoveInterface(name string, back bool) error {
	return n.system.call("remove interface", name, "back:", back)
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
