// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/state"
)

// TestUnknownPlugins: a plugin outside of the catalogue is an error only where its
// DEL failed. An error that an earlier teardown recorded does not count.
func TestUnknownPlugins(t *testing.T) {
	unknown := json.RawMessage(`{"plugins": [{"type": "bridge"}, {"type": "vendor"}]}`)
	known := json.RawMessage(`{"plugins": [{"type": "bridge"}]}`)
	failed := errors.New("exit status 1")
	for name, test := range map[string]struct {
		suspect state.Suspect
		want    string
	}{
		"DEL failed":           {state.Suspect{Attachment: state.Attachment{ConfList: unknown}, DelErr: failed}, "vendor"},
		"DEL succeeded":        {state.Suspect{Attachment: state.Attachment{ConfList: unknown}}, ""},
		"DEL failed before":    {state.Suspect{Attachment: state.Attachment{ConfList: unknown, Error: "exit status 1"}}, ""},
		"known and DEL failed": {state.Suspect{Attachment: state.Attachment{ConfList: known}, DelErr: failed}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := catalogue.unknownPlugins([]state.Suspect{test.suspect})
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), "the plugin "+test.want+" ") {
				t.Errorf("%v, want plugin %q", err, test.want)
			}
		})
	}
}

// TestFailureOfNone: what could not be removed, and is of no known allocation, may be any one's.
func TestFailureOfNone(t *testing.T) {
	a, b := leftover(`{"type": "bridge"}`), leftover(`{"type": "bridge"}`)
	b.Allocation.ID = "b"
	if errs := catalogue.outcomes([]state.Leftover{a, b}, []Failure{{Object{}, errFake}}, nil); !errors.Is(errs[0], errFake) || !errors.Is(errs[1], errFake) {
		t.Errorf("%v, want the error for both", errs)
	}
	if errs := catalogue.outcomes([]state.Leftover{a, b}, []Failure{{Object{Owner: ownerOf("web", "b", "eth0")}, errFake}}, nil); errs[0] != nil || !errors.Is(errs[1], errFake) {
		t.Errorf("%v, want the error for one", errs)
	}
}

// TestFailedReturn: a device or an interface that stays in its namespace is an error, and where the namespace is gone
// there is no interface.
func TestFailedReturn(t *testing.T) {
	f := newFakeSystem()
	inside := state.Allocation{ID: "a1", Netns: "/run/netns/a1"}
	if err := (&link{name: "eth0", in: &inside}).remove(f); err != nil {
		t.Errorf("an interface of a namespace that is gone: %v", err)
	}
	f.addNamespace(inside.Netns, "1", "10.0.0.2/24")
	f.errs["return device"], f.errs["remove interface"] = errFake, errFake
	if err := (&device{in: inside}).remove(f); !errors.Is(err, errFake) {
		t.Errorf("a device that stays: %v", err)
	}
	if err := (&link{name: "eth0", in: &inside}).remove(f); !errors.Is(err, errFake) {
		t.Errorf("an interface that stays: %v", err)
	}
	f.errs["open namespace"] = errFake
	if err := (&link{name: "eth0", in: &inside}).remove(f); !errors.Is(err, errFake) || len(f.calls) != 2 {
		t.Errorf("a namespace that cannot be opened: %v, calls %q", err, f.calls)
	}
}

// TestNamespacesAreClosed: cleanup of any number of allocations holds no namespace that it has looked for or into.
func TestNamespacesAreClosed(t *testing.T) {
	f := newFakeSystem()
	f.addNamespace("/run/netns/a1", "1", "10.0.0.2/24")
	c := &Cleaner{CacheDir: t.TempDir(), host: f.host(catalogue.within(t.TempDir()))}
	for _, plugins := range []string{"bridge", "host-device"} {
		if errs := c.Clean(t.Context(), []state.Leftover{leftover(fmt.Sprintf(`{"type": %q}`, plugins))}); errs[0] != nil || f.held.Load() != 0 {
			t.Errorf("%s: %v, %d namespaces are open", plugins, errs[0], f.held.Load())
		}
	}
}

// TestFormOfFiles: a file of another form is told, and has no owner. A directory that is missing has none.
func TestFormOfFiles(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/notes", "x")
	p := filePattern{name: regexp.MustCompile(`^(?P<id>.+)_(?P<interface>.+)$`), want: "ID_INTERFACE"}
	if found := p.scan(dir, "file"); len(found.Objects) != 0 || len(found.Problems) != 1 {
		t.Errorf("objects %v, problems %v, want one problem", found.Objects, found.Problems)
	}
	if found := p.scan(dir+"/missing", "file"); len(found.Problems) != 0 {
		t.Errorf("problems %v of a directory that is missing", found.Problems)
	}
}

// TestEachLeak: a plugin may leave several kinds.
func TestEachLeak(t *testing.T) {
	a, b := &leak{}, &leak{}
	if all := slices.Collect(catalog{{leaves: []*leak{a, b}}, {leaves: []*leak{a}}}.leaks()); !slices.Equal(all, []*leak{a, b}) {
		t.Errorf("%d leaks, want both once", len(all))
	}
}

// TestNamespaceBehindLink: a namespace that a path leads to exists.
func TestNamespaceBehindLink(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ns")
	if err := os.Symlink("/proc/self/ns/net", path); err != nil {
		t.Fatal(err)
	}
	for path, lost := range map[string]bool{path: false, path + "-gone": true, "/proc/0/ns/net": false, "": false} {
		if got := (cached{Netns: path}).lostNamespace(); got != lost {
			t.Errorf("%q is lost: %t", path, got)
		}
	}
}

// TestUnknownLinks: that links cannot be listed, or the namespace cannot be opened, does not mean that none is left. The lease
// stays, and so does the record.
func TestUnknownLinks(t *testing.T) {
	for name, fail := range map[string]func(*fakeSystem){
		"links": func(f *fakeSystem) { f.errs["find link"] = errFake },
		"namespace": func(f *fakeSystem) {
			f.namespaced["/run/netns/a1"], f.errs["open namespace"] = &fakeNamespace{system: f}, errFake
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, root := newFakeSystem(), t.TempDir()
			fail(f)
			lease := filepath.Join(root, "var/lib/cni/networks/web/10.0.0.2")
			writeFile(t, filepath.Join(filepath.Dir(lease), "lock"), "")
			writeFile(t, lease, "a1\r\neth0")
			cleaner := Cleaner{CacheDir: root, host: f.host(catalogue.within(root))}
			leftovers := []state.Leftover{leftover(`{"type": "bridge", "ipam": {"type": "host-local"}}`)}
			if errs := cleaner.Clean(t.Context(), leftovers); !errors.Is(errs[0], errFake) || !exists(lease) {
				t.Errorf("%v, lease %t", errs[0], exists(lease))
			}
			clear(f.errs)
			if errs := cleaner.Clean(t.Context(), leftovers); errs[0] != nil || exists(lease) {
				t.Errorf("later: %v, lease %t", errs[0], exists(lease))
			}
		})
	}
}
