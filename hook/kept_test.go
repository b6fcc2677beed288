// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/policy"
)

// TestKeptNetworks changes files of a configuration directory in every way, and compares after each change what an engine knows of
// them, which has read them before, with what one knows that reads them for the first time, through another path.
func TestKeptNetworks(t *testing.T) {
	g, aliases := changer{t, rand.New(rand.NewPCG(1, 0)), t.TempDir(), t.TempDir()}, t.TempDir()
	for step := range 500 {
		what := g.change()
		alias := filepath.Join(aliases, fmt.Sprint(step))
		if err := os.Symlink(g.dir, alias); err != nil {
			t.Fatal(err)
		}
		kept, fresh := g.view(g.dir), strings.ReplaceAll(g.view(alias), alias, g.dir)
		if kept != fresh {
			t.Fatalf("step %d, %s: an engine knows\n%s\nwant\n%s", step, what, kept, fresh)
		}
	}
}

// changer changes files of a directory. Links in it lead to another one.
type changer struct {
	t              *testing.T
	rand           *rand.Rand
	dir, elsewhere string
}

// view is what an engine knows of the networks of a directory.
func (g changer) view(dir string) string {
	e, err := NewReader(Config{ConfDirs: []string{dir}, PluginDirs: []string{g.elsewhere}, StateDir: g.elsewhere})
	if err != nil {
		g.t.Fatal(err)
	}
	catalog, err := e.Catalog()
	if err != nil {
		return err.Error()
	}
	var all strings.Builder
	for _, n := range append(catalog.Networks, catalog.Shadowed...) {
		rules, err := policy.Of(n)
		if _, failed := policy.Of(n); failed != err { //nolint:errorlint // it is read once
			g.t.Errorf("%v, then %v", err, failed)
		}
		encoded, _ := json.Marshal(rules) // which it was decoded from
		c := e.env.Config
		fmt.Fprintf(&all, "%s in %s: %s, plugins %v, rules %s (%v), capabilities %v, keys %v, warnings %v, by plugins because %v\n", n.Name, n.Path, n.List.Bytes, n.PluginTypes(), encoded, err,
			n.Capabilities(), c.CheckKeys(n), c.Warnings(n), c.WhyPlugins(n))
		for i, p := range n.Chain() {
			fmt.Fprintf(&all, "\t%+v of %s\n", p, n.Plugins[i].Data)
		}
	}
	for _, b := range catalog.Broken {
		fmt.Fprintf(&all, "%s: %v\n", b.Network, b)
	}
	rules, err := policy.Load(filepath.Join(dir, "policy.txt"))
	fmt.Fprintf(&all, "of the host: %s, %v\n", rules.Describe(), err)
	return all.String()
}

// change changes one file, and returns how.
func (g changer) change() string {
	file := g.pick("10-a.conflist", "20-b.conflist", "30-c.conf", "40-a.json", "b/1.conf", "b/2.conf", "policy.txt")
	path, content := filepath.Join(g.dir, file), g.content(file)
	before, _ := os.Stat(path) // there may be none
	way := g.pick("written in place", "rewritten in the same size", "replaced", "removed", "linked", "cut", "a directory", "a pipe", "unchanged")
	var err error
	switch way {
	case "written in place":
		err = g.write(path, content)
	case "rewritten in the same size":
		if before == nil || !before.Mode().IsRegular() {
			return g.change()
		}
		old, unread := os.ReadFile(path)
		if unread != nil {
			g.t.Fatal(unread)
		}
		swapped := strings.NewReplacer("1", "2", "2", "3", "3", "1", "a", "b", "b", "a").Replace(string(old))
		if err = g.write(path, swapped); err == nil {
			err = os.Chtimes(path, before.ModTime(), before.ModTime())
		}
	case "replaced":
		if err = g.write(filepath.Join(g.elsewhere, "new"), content); err == nil {
			err = os.Rename(filepath.Join(g.elsewhere, "new"), g.vacant(path))
		}
	case "linked":
		target := filepath.Join(g.elsewhere, g.pick("x", "y", "missing"))
		if filepath.Base(target) != "missing" && g.rand.IntN(2) == 0 {
			err = g.write(target, content)
		}
		err = errors.Join(err, os.Symlink(target, g.vacant(path)))
	case "removed":
		g.vacant(path)
	case "cut":
		err = g.write(path, content[:len(content)/2])
	case "a directory":
		err = os.Mkdir(g.vacant(path), 0o700)
	case "a pipe":
		err = unix.Mkfifo(g.vacant(path), 0o600)
	}
	if err != nil {
		g.t.Fatalf("%s %s: %v", file, way, err)
	}
	return file + " " + way
}

// write writes a file in its place, and through a link.
func (g changer) write(path, content string) error {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		g.vacant(path)
	}
	return os.WriteFile(path, []byte(content), 0o600)
}

// vacant makes a path, and nothing at it.
func (g changer) vacant(path string) string {
	if err := errors.Join(os.RemoveAll(path), os.MkdirAll(filepath.Dir(path), 0o700)); err != nil {
		g.t.Fatal(err)
	}
	return path
}

func (g changer) pick(from ...string) string { return from[g.rand.IntN(len(from))] }

// content returns a content of a file, some of them with mistakes.
func (g changer) content(file string) string {
	plugin := fmt.Sprintf(`{"type": %q, %q: "br%d", "ipam": {"type": "host-local", "subnet": "10.%d.0.0/16"}}`,
		g.pick("bridge", "ptp", "fakecni"), g.pick("bridge", "bridg", "master"), g.rand.IntN(3), 1+g.rand.IntN(3))
	rules := fmt.Sprintf(`{%q: %s}`, g.pick("namespaces", "jobs", "namespace"), g.pick(`["a"]`, `["b"]`, `["!a*"]`, `"a"`))
	switch name := g.pick("a", "b", "c", "-"); {
	case file == "policy.txt":
		return rules
	case strings.HasPrefix(file, "b/"):
		return plugin
	case filepath.Ext(file) == ".conf":
		return fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %q, "allocnet": %s, %s`, name, rules, plugin[1:])
	default:
		return fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %q, "allocnet": %s, "loadOnlyInlinedPlugins": %s, "plugins": [%s]}`, name, rules, g.pick("true", "false"), g.pick(plugin, ""))
	}
}
