// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/exhaustive"
)

// file is one of the files of a host, or a directory.
type file struct {
	path string
	mode fs.FileMode
	data []byte
}

// death is where a process dies: at an effect of a call, which is made or not.
type death struct {
	at     int
	effect string
	made   bool
}

// dieAtEach has a process die at each of the effects of a call, and then goes on in each way with the host that is left.
func dieAtEach(t *testing.T, w *world, call func(w *world) error, ways map[string]func(t *testing.T)) {
	t.Helper()
	found := w.keep(t)
	for _, d := range w.deathsOf(t, call) {
		var dead func(*testing.T)
		for after, goOn := range ways {
			exhaustive.Run(t, fmt.Sprintf("%s/%s", d, after), func(t *testing.T) {
				if dead == nil {
					found(t)
					w.killAt(d.at, d.made)
					_ = call(w) // a dead process returns nothing
					w.bury()
					dead = w.keep(t)
				}
				dead(t)
				goOn(t)
			})
		}
	}
}

func (d death) String() string {
	when := map[bool]string{false: "before", true: "after"}
	return fmt.Sprintf("%s %d, %s", when[d.made], d.at, d.effect)
}

// deathsOf returns the deaths of a call that leave different hosts: before each effect, and after those that something follows
// that is no effect, as libcni's cache does. A death after another one leaves what one before the next leaves.
func (w *world) deathsOf(t *testing.T, call func(w *world) error) (deaths []death) {
	t.Helper()
	var cached []string // before and after each effect
	w.killer.onEffect = func() { cached = append(cached, fmt.Sprint(readFiles(t, w.results()))) }
	if err := call(w); err != nil {
		t.Fatal(err)
	}
	w.killer.onEffect = nil
	for at, effect := range w.killer.seen {
		deaths = append(deaths, death{at, effect, false})
		verb, _, _ := strings.Cut(effect, " ")
		isCall := slices.Contains([]string{"ADD", "DEL", "CHECK", "GC"}, verb)
		isLast := at == len(w.killer.seen)-1
		if !isRecorded(effect) && (isCall || isLast || cached[2*at+1] != cached[2*at+2]) {
			deaths = append(deaths, death{at, effect, true})
		}
	}
	return deaths
}

// keep returns what brings the host back to what it is now, for a test and for a new process. What a thousand deaths
// and all that follows a death have in common is made once so.
func (w *world) keep(t *testing.T) (restore func(t *testing.T)) {
	t.Helper()
	dir := filepath.Dir(w.config.StateDir)
	files := filesIn(t, dir)
	objects, calls, wrong := maps.Clone(w.objects), w.calls, slices.Clone(w.wrong)
	namespaces, filter := w.namespaces.keep(), w.filter.keep()
	return func(t *testing.T) {
		t.Helper()
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		makeFiles(t, files)
		w.t, w.ctx = t, t.Context()
		w.objects, w.calls, w.wrong = maps.Clone(objects), calls, slices.Clone(wrong)
		clear(w.chains)
		namespaces()
		filter()
		w.restart()
	}
}

// filesIn returns the files in a directory, and it: each behind its directory.
func filesIn(t *testing.T, dir string) (files []file) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		f := file{path: path, mode: info.Mode()}
		switch {
		case f.mode.IsRegular():
			f.data, err = os.ReadFile(path)
		case !f.mode.IsDir():
			err = fmt.Errorf("%s is no file", path)
		}
		files = append(files, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func makeFiles(t *testing.T, files []file) {
	t.Helper()
	for _, f := range files {
		var err error
		if f.mode.IsDir() {
			err = os.Mkdir(f.path, f.mode.Perm())
		} else {
			err = os.WriteFile(f.path, f.data, f.mode.Perm())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// keep returns what has the namespaces be as they are now.
func (n *fakeNamespaces) keep() (restore func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	created, handles, made, paths := n.created, n.handles, map[string]*fakeNamespace{}, map[string]string{}
	for id, ns := range n.made {
		made[id] = ns.clone()
	}
	for path, ns := range n.at {
		paths[path] = ns.id
	}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.created, n.handles = created, handles
		n.made, n.at = map[string]*fakeNamespace{}, map[string]*fakeNamespace{}
		for id, ns := range made {
			n.made[id] = ns.clone()
		}
		for path, id := range paths {
			n.at[path] = n.made[id]
		}
	}
}

func (n *fakeNamespace) clone() *fakeNamespace {
	c := *n
	c.interfaces, c.routes, c.acceptRA = slices.Clone(n.interfaces), slices.Clone(n.routes), slices.Clone(n.acceptRA)
	c.parameters, c.withoutIPv6, c.sources = slices.Clone(n.parameters), slices.Clone(n.withoutIPv6), slices.Clone(n.sources)
	return &c
}

// keep returns what has the filter be as it is now.
func (f *fakeFilter) keep() (restore func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	guards, members, inside, ended := maps.Clone(f.guards), maps.Clone(f.members), maps.Clone(f.inside), slices.Clone(f.ended)
	rules, refuses, applied := f.rules, f.refuses, f.applied
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.guards, f.members, f.inside, f.ended = maps.Clone(guards), maps.Clone(members), maps.Clone(inside), slices.Clone(ended)
		f.rules, f.refuses, f.applied = rules, refuses, applied
	}
}
