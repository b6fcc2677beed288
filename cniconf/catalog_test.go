// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// confDir writes files into a new directory.
func confDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func load(t *testing.T, files map[string]string) *Catalog {
	t.Helper()
	c, err := Load(confDir(t, files))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLoad(t *testing.T) {
	c := load(t, map[string]string{
		"20-b.conflist":      `{"cniVersion": "1.0.0", "name": "b", "plugins": [{"type": "bridge"}, {"type": "portmap", "capabilities": {"portMappings": true, "x": false}}]}`,
		"10-a.conf":          `{"cniVersion": "0.3.0", "name": "a", "type": "ptp", "ipam": {"type": "host-local"}, "capabilities": {"ips": true}}`,
		"30-c.json":          `{"cniVersions": ["0.4.0", "1.1.0", "9.0.0"], "name": "c", "plugins": [{"type": "macvlan"}], "allocnet": {"k": 1}}`,
		"40-again.conflist":  `{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "bridge"}]}`,
		"50-sub.conflist":    `{"cniVersion": "1.0.0", "name": "sub", "plugins": [{"type": "bridge"}]}`,
		"sub/10-more.conf":   `{"type": "tuning"}`,
		"sub/ignored.json":   `{"type": "sbr"}`,
		"60-alone.conflist":  `{"cniVersion": "1.0.0", "name": "alone", "loadOnlyInlinedPlugins": "true", "plugins": [{"type": "bridge"}]}`,
		"alone/10-more.conf": `{"type": "tuning"}`,
		"readme.txt":         `no network`,
	})
	type view struct {
		Name, Version       string
		Plugins, Caps, Bins []string
	}
	var got []view
	for _, n := range c.Networks {
		got = append(got, view{n.Name, n.List.CNIVersion, n.PluginTypes(), n.Capabilities(), n.binaries()})
	}
	want := []view{
		{"a", "0.3.0", []string{"ptp"}, []string{"ips"}, []string{"ptp", "host-local"}},
		{"b", "1.0.0", []string{"bridge", "portmap"}, []string{"portMappings"}, []string{"bridge", "portmap"}},
		{"c", "1.1.0", []string{"macvlan"}, nil, []string{"macvlan"}},
		{"sub", "1.0.0", []string{"bridge", "tuning"}, nil, []string{"bridge", "tuning"}},
		{"alone", "1.0.0", []string{"bridge"}, nil, []string{"bridge"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("networks (-want +got):\n%s", diff)
	}
	if len(c.Broken) != 0 {
		t.Errorf("broken: %v", c.Broken)
	}
	if len(c.Shadowed) != 1 || filepath.Base(c.Shadowed[0].Path) != "40-again.conflist" {
		t.Errorf("shadowed: %v", c.Shadowed)
	}
	if string(c.Networks[2].Options.Data) != `{"k": 1}` {
		t.Errorf("options: %s", c.Networks[2].Options.Data)
	}
}

// TestLoadDirectories: the order of the directories comes before that of files.
func TestLoadDirectories(t *testing.T) {
	first := confDir(t, map[string]string{"90-a.conf": `{"cniVersion": "1.0.0", "name": "a", "type": "first"}`})
	second := confDir(t, map[string]string{
		"10-a.conf": `{"cniVersion": "1.0.0", "name": "a", "type": "second"}`,
		"20-b.conf": `{"cniVersion": "1.0.0", "name": "b", "type": "second"}`,
	})
	c, err := Load(first, second)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.Lookup("a"); err != nil || n.PluginTypes()[0] != "first" {
		t.Errorf("a is %v, %v, want that of the first directory", n, err)
	}
	if _, err := c.Lookup("b"); err != nil {
		t.Error(err)
	}
	if len(c.Shadowed) != 1 || c.Shadowed[0].Path != filepath.Join(second, "10-a.conf") {
		t.Errorf("shadowed: %v", c.Shadowed)
	}
	if _, err := c.Lookup("x"); err == nil || !strings.Contains(err.Error(), first) || !strings.Contains(err.Error(), second) {
		t.Errorf("%v does not name both directories", err)
	}
	if _, err := Load("/nonexistent", second); !errors.Is(err, ErrNoDir) {
		t.Errorf("a directory is missing: %v, want ErrNoDir: a network of the second could take its place", err)
	}
}

// TestBrokenFileKeepsItsName: a file of a later directory does not take the place
// of a broken one that may have rules for the network.
func TestBrokenFileKeepsItsName(t *testing.T) {
	second := map[string]string{
		"10-a.conf": `{"cniVersion": "1.0.0", "name": "a", "type": "second"}`,
		"20-b.conf": `{"cniVersion": "1.0.0", "name": "b", "type": "second"}`,
	}
	for name, test := range map[string]struct {
		broken string
		a, b   bool
	}{
		"its name can be read":     {`{"cniVersion": "1.0.0", "name": "a", "allocnet": {"namespaces": ["prod"],}, "type": "first"}`, false, true},
		"with other letters":       {`{"Name": "a", "type": "first",}`, false, true},
		"the last of two":          {`{"name": "b", "name": "a", "type": "first",}`, false, true},
		"the name comes too late":  {`{"allocnet": {"namespaces": ["prod"],}, "name": "a", "type": "first"}`, false, false},
		"the name is no text":      {`{"name": ["a"], "type": "first"}`, false, false},
		"empty":                    {``, false, false},
		"only its plugin is wrong": {`{"cniVersion": "1.0.0", "name": "b", "type": "../first"}`, true, false},
	} {
		first := confDir(t, map[string]string{
			"50-broken.conf": test.broken,
			"60-c.conf":      `{"cniVersion": "1.0.0", "name": "c", "type": "first"}`,
		})
		c, err := Load(first, confDir(t, second))
		if err != nil {
			t.Fatal(err)
		}
		for network, want := range map[string]bool{"a": test.a, "b": test.b, "c": true} {
			_, err := c.Lookup(network)
			if (err == nil) != want || err != nil && !strings.Contains(err.Error(), first+"/50-broken.conf") {
				t.Errorf("%s: %s is %v, want it found: %t, else the broken file named", name, network, err, want)
			}
		}
	}
}

// TestBrokenFileWithRules: in one directory, too, a later file does not take the
// place of a broken one that may have rules for the network. Other networks are there.
func TestBrokenFileWithRules(t *testing.T) {
	for name, test := range map[string]struct {
		broken string
		want   bool
	}{
		"rules":                        {`{"cniVersion": "1.0.0", "name": "a", "allocnet": {"namespaces": ["prod"],}, "type": "first"}`, false},
		"rules, with other letters":    {`{"Name": "a", "AllocNet": {"namespaces": ["prod"]}, "type": "first",}`, false},
		"rules before the name":        {`{"allocnet": {"namespaces": ["prod"],}, "name": "a", "type": "first"}`, false},
		"rules, and an invalid plugin": {`{"cniVersion": "1.0.0", "name": "a", "allocnet": {}, "type": "../first"}`, false},
		"rules of another network":     {`{"name": "c", "allocnet": {"namespaces": ["prod"],}}`, true},
		"no rules":                     {`{"cniVersion": "1.0.0", "name": "a", "type": "first",}`, false},
		"name with an escape":          {`{"name": "\u0061", "type": "first",}`, false},
		"name after an error":          {`{"type": "first",, "name": "a"}`, false},
		"name without a quote before":  {`{"type": "first", name": "a"}`, false},
		"name without a quote after":   {`{"type": "first", "name: "a"}`, false},
		"name without a colon":         {`{"type": "first", "name" "a"}`, false},
		"a without a quote before":     {`{"type": "first", "name": a"}`, false},
		"a without a quote after":      {`{"type": "first", "name": "a, "allocnet": {}}`, false},
		"name in other quotes":         {`{'type': 'first', 'Name': 'a'}`, false},
		"name after lines":             {"{\"type\": \"first\",,\n \"name\"\n:\n \"a\"}", false},
		"a longer name":                {`{"type": "first",, "name": "a-2"}`, true},
		"another key with name":        {`{"type": "first",, "ifname": "a", "x-name": "a", "names": "a"}`, true},
		"too large":                    {`{"name": "a", "x": "` + strings.Repeat("x", maxFile) + `"}`, false},
		"too large, another network":   {`{"name": "c", "x": "` + strings.Repeat("x", maxFile) + `"}`, true},
		"truncated before the name":    {`{"cniVersion": "1.0.0", "na`, true},
		"empty":                        {``, true},
	} {
		c := load(t, map[string]string{
			"10-broken.conf": test.broken,
			"20-a.conf":      `{"cniVersion": "1.0.0", "name": "a", "type": "second"}`,
			"20-b.conf":      `{"cniVersion": "1.0.0", "name": "b", "type": "second"}`,
		})
		_, err := c.Lookup("a")
		if (err == nil) != test.want || err != nil && !strings.Contains(err.Error(), `20-a.conf: network "a" may be that of the broken file `+c.Dirs[0]+"/10-broken.conf") {
			t.Errorf("%s: a is %v, want it found: %t, else the broken file named", name, err, test.want)
		}
		if _, err := c.Lookup("b"); err != nil {
			t.Errorf("%s: b is %v", name, err)
		}
	}
	c := load(t, map[string]string{
		"10-a.conf":      `{"cniVersion": "1.0.0", "name": "a", "type": "first"}`,
		"20-broken.conf": `{"name": "a", "allocnet": {},}`,
	})
	if _, err := c.Lookup("a"); err != nil {
		t.Errorf("the broken file comes later: %v", err)
	}
}

func TestBrokenFilesHideNothing(t *testing.T) {
	for name, test := range map[string]struct{ text, reason string }{
		"not JSON":            {"{\n  \"name\": \"x\",\n  oops}", ":3:3: invalid JSON: invalid character 'o'"},
		"empty":               {"", "invalid JSON: the text ends before it is complete"},
		"no name":             {`{"cniVersion": "1.0.0", "plugins": [{"type": "bridge"}]}`, "no name"},
		"bad name":            {`{"cniVersion": "1.0.0", "name": "../x", "plugins": [{"type": "bridge"}]}`, `name "../x": want letters`},
		"no version":          {`{"name": "x", "plugins": [{"type": "bridge"}]}`, `cniVersion "": want 0.3.0 to 1.1.0`},
		"version too old":     {`{"cniVersion": "0.2.0", "name": "x", "plugins": [{"type": "bridge"}]}`, `cniVersion "0.2.0"`},
		"version too new":     {`{"cniVersion": "2.0.0", "name": "x", "plugins": [{"type": "bridge"}]}`, `cniVersion "2.0.0"`},
		"no plugins":          {`{"cniVersion": "1.0.0", "name": "x", "plugins": []}`, "no plugins"},
		"no plugins anywhere": {`{"cniVersion": "1.0.0", "name": "x"}`, "no plugins"},
		"plugin without type": {`{"cniVersion": "1.0.0", "name": "x", "plugins": [{}]}`, "type"},
		"plugin is a path":    {`{"cniVersion": "1.0.0", "name": "x", "plugins": [{"type": "../bridge"}]}`, `plugins[0]: type "../bridge"`},
		"IPAM is a path":      {`{"cniVersion": "1.0.0", "name": "x", "plugins": [{"type": "bridge", "ipam": {"type": "/bin/sh"}}]}`, `type "/bin/sh"`},
		"too large":           {`{"x": "` + strings.Repeat("x", maxFile) + `"}`, "want at most"},
	} {
		t.Run(name, func(t *testing.T) {
			c := load(t, map[string]string{
				"10-x.conflist":    test.text,
				"20-good.conflist": `{"cniVersion": "1.0.0", "name": "good", "plugins": [{"type": "bridge"}]}`,
			})
			if len(c.Broken) != 1 || !strings.Contains(c.Broken[0].Error(), test.reason) || !strings.Contains(c.Broken[0].Error(), "10-x.conflist") {
				t.Errorf("broken: %v, want the path and %q", c.Broken, test.reason)
			}
			if _, err := c.Lookup("good"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBrokenPluginOfASubdirectory(t *testing.T) {
	c := load(t, map[string]string{
		"10-x.conflist": `{"cniVersion": "1.0.0", "name": "x", "plugins": [{"type": "bridge"}]}`,
		"x/10-p.conf":   `{"type": `,
	})
	if len(c.Networks) != 0 || len(c.Broken) != 1 || !strings.HasSuffix(c.Broken[0].Path, "x/10-p.conf") {
		t.Errorf("networks %v, broken %v", c.Networks, c.Broken)
	}
}

func TestUnreadableEntries(t *testing.T) {
	dir := confDir(t, map[string]string{"20-good.conflist": `{"cniVersion": "1.0.0", "name": "good", "plugins": [{"type": "bridge"}]}`})
	if err := os.Symlink("/nonexistent", filepath.Join(dir, "10-nowhere.conf")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "15-device.conf")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "16-pipe.conflist"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Broken) != 3 || len(c.Networks) != 1 {
		t.Errorf("broken %v, networks %v", c.Broken, c.Networks)
	}
}

// TestNamesLeaveNoDirectory: a network's name is a subdirectory's, and a
// plugin's type is a file's in the plugin directories.
func TestNamesLeaveNoDirectory(t *testing.T) {
	for text, word := range map[string]string{
		`{"cniVersion": "1.0.0", "name": "../x", "plugins": [{"type": "bridge"}]}`:                           `"../x"`,
		`{"cniVersion": "1.0.0", "name": "..", "plugins": [{"type": "bridge"}]}`:                             `".."`,
		`{"cniVersion": "1.0.0", "name": "a\u0000b", "plugins": [{"type": "bridge"}]}`:                       `"a\x00b"`,
		`{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "../bridge"}]}`:                           `"../bridge"`,
		`{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": ".."}]}`:                                  `".."`,
		`{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "bridge", "ipam": {"type": "/bin/sh"}}]}`: `"/bin/sh"`,
		`{"cniVersion": "1.0.0", "name": "a", "type": "/bin/sh"}`:                                            `"/bin/sh"`,
	} {
		if _, err := ParseList([]byte(text)); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v, want an error with %s", text, err, word)
		}
	}
}

func TestLookupUnknown(t *testing.T) {
	c := load(t, map[string]string{
		"10-a.conflist": `{"cniVersion": "1.0.0", "name": "Storage", "plugins": [{"type": "bridge"}]}`,
		"20-b.conflist": `{`,
	})
	_, err := c.Lookup("storage")
	var unknown *NotFoundError
	if !errors.As(err, &unknown) {
		t.Fatalf("got %v", err)
	}
	for _, word := range []string{`"storage"`, c.Dirs[0], `did you mean "Storage"`, "20-b.conflist"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %s", err, word)
		}
	}
}

func TestLoadWithoutDirectory(t *testing.T) {
	if _, err := Load("/nonexistent/dir"); !errors.Is(err, ErrNoDir) {
		t.Errorf("got %v, want ErrNoDir", err)
	}
}

func TestCheckPlugins(t *testing.T) {
	c := load(t, map[string]string{"10-a.conflist": `{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "there", "ipam": {"type": "mode"}}, {"type": "gone"}]}`})
	first, second := t.TempDir(), t.TempDir()
	for path, mode := range map[string]os.FileMode{second + "/there": 0o755, first + "/mode": 0o644} {
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	err := c.Networks[0].CheckPlugins([]string{first, second})
	var missing *MissingPluginError
	if !errors.As(err, &missing) {
		t.Fatalf("got %v", err)
	}
	if diff := cmp.Diff(map[string]string{"gone": "is not installed", "mode": "is not executable"}, missing.Missing); diff != "" {
		t.Error(diff)
	}
	for _, word := range []string{`"a"`, first, second} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %s", err, word)
		}
	}
}

func TestPluginDirs(t *testing.T) {
	t.Setenv("CNI_PATH", "/a:/b")
	if got := PluginDirs([]string{"/c"}); !cmp.Equal(got, []string{"/c"}) {
		t.Errorf("configured: %v", got)
	}
	if got := PluginDirs(nil); !cmp.Equal(got, []string{"/a", "/b"}) {
		t.Errorf("from CNI_PATH: %v", got)
	}
	t.Setenv("CNI_PATH", "")
	if got := PluginDirs(nil); !cmp.Equal(got, []string{"/opt/cni/bin", "/usr/lib/cni"}) {
		t.Errorf("default: %v", got)
	}
}

func TestRender(t *testing.T) {
	const text = `{"cniVersion": "1.0.0", "name": "a", "site": {"big": 9007199254740991}, "allocnet": {"policy": 1},
		"plugins": [{"type": "bridge", "mtu": 1500, "args": {"cni": {"a": 1, "B": 1}, "other": 2}}, {"type": "tuning"}]}`
	network := load(t, map[string]string{"10-a.conflist": text}).Networks[0]
	before := string(network.List.Bytes)
	got, err := network.Render(Edit{MTU: 1400, CNIArgs: map[string]any{"b": "x"}, Marker: []byte(`{"m":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"allocnet":{"m":1},"cniVersion":"1.0.0","loadOnlyInlinedPlugins":true,"name":"a",` +
		`"plugins":[{"args":{"cni":{"a":1,"b":"x"},"other":2},"mtu":1400,"type":"bridge"},{"args":{"cni":{"b":"x"}},"type":"tuning"}],` +
		`"site":{"big":9007199254740991}}`
	if string(got) != want {
		t.Errorf("rendered\n%s\nwant\n%s", got, want)
	}
	if string(network.List.Bytes) != before {
		t.Error("Render changed the network")
	}
	if list, err := ParseList(got); err != nil || len(list.Plugins) != 2 {
		t.Errorf("what is rendered does not parse: %v", err)
	}
}

func TestRenderKeepsThePluginsOfTheSubdirectory(t *testing.T) {
	c := load(t, map[string]string{
		"10-x.conflist": `{"cniVersion": "1.0.0", "name": "x", "plugins": [{"type": "bridge"}]}`,
		"x/10-p.conf":   `{"type": "tuning"}`,
	})
	got, err := c.Networks[0].Render(Edit{})
	if err != nil || !strings.Contains(string(got), `"plugins":[{"type":"bridge"},{"type":"tuning"}]`) {
		t.Errorf("rendered %s, %v", got, err)
	}
	_, err = c.Networks[0].Render(Edit{MTU: 1400})
	if want := `network "x": no plugin has the key "mtu": omit the MTU, or add the key to the network`; errdefs.Of(err) != errdefs.Refused || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func FuzzParseList(f *testing.F) {
	f.Add(`{"cniVersion": "1.0.0", "name": "b", "plugins": [{"type": "bridge"}]}`)
	f.Add(`{"cniVersion": "0.4.0", "name": "a", "type": "ptp", "args": {"cni": 1}}`)
	f.Add(`{"cniVersions": ["1.1.0"], "name": "a", "plugins": null}`)
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseList([]byte(text))
		if err != nil {
			return
		}
		if len(list.Plugins) == 0 || filepath.Base(list.Name) != list.Name || strings.Trim(list.Name, ".") == "" {
			t.Errorf("accepted %q", text)
		}
		n := &Network{Name: list.Name, List: list}
		for _, binary := range n.binaries() {
			if filepath.Base(binary) != binary || strings.Trim(binary, ".") == "" && len(binary) < 3 {
				t.Errorf("%q executes %q", text, binary)
			}
		}
		rendered, err := n.Render(Edit{})
		if err != nil {
			t.Fatalf("render %q: %v", text, err)
		}
		again, err := ParseList(rendered)
		if err != nil {
			t.Fatalf("%q is rendered as %q: %v", text, rendered, err)
		}
		if twice, err := (&Network{Name: again.Name, List: again}).Render(Edit{}); err != nil || string(twice) != string(rendered) {
			t.Errorf("%q is rendered as %q, and that as %q, %v", text, rendered, twice, err)
		}
	})
}

// TestPresent: the directory for networks with rules need not be there, and counts from when it is.
func TestPresent(t *testing.T) {
	own, missing := t.TempDir(), t.TempDir()+"/none"
	link := own + "/link"
	if err := os.Symlink(missing, link); err != nil {
		t.Fatal(err)
	}
	dirs := []string{own, missing + "/", link}
	for dir, want := range map[string][]string{own: dirs, missing: {own, link}, "/other": dirs, link: dirs} {
		if got := present(dir, dirs); !slices.Equal(got, want) {
			t.Errorf("with %s: %q, want %q", dir, got, want)
		}
	}
	if _, err := Load(OwnDir); err != nil {
		t.Errorf("whether this host has %s or not: %v", OwnDir, err)
	}
	if _, err := Load(missing); !errors.Is(err, ErrNoDir) {
		t.Errorf("another one that is missing: %v, want ErrNoDir", err)
	}
}
