// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// TestErrors has the whole text and the kind of each error.
func TestErrors(t *testing.T) {
	broken := BrokenFile{Path: "/c/b.conf", Line: 3, Column: 7, Err: errors.New("invalid")}
	for _, test := range []struct {
		err  error
		kind errdefs.Kind
		want string
	}{
		{broken, errdefs.Failed, "/c/b.conf:3:7: invalid"},
		{BrokenFile{Path: "/c/b.conf", Err: fs.ErrPermission}, errdefs.Failed, "/c/b.conf: permission denied"},
		{&NotFoundError{Name: "a", Dirs: []string{"/c", "/d"}}, errdefs.Refused, `unknown network "a": /c, /d offers none`},
		{
			&NotFoundError{Name: "a", Dirs: []string{"/c"}, Known: []string{"b", "A"}, Broken: []BrokenFile{broken}}, errdefs.Refused,
			`unknown network "a": /c offers b, A; did you mean "A"?; not usable: /c/b.conf:3:7: invalid`,
		},
		{
			&MissingPluginError{Network: "a", Missing: map[string]string{"y": "is not executable", "x": "is not installed"}, Dirs: []string{"/p", "/q"}}, errdefs.Refused,
			`network "a": plugin "x" is not installed, plugin "y" is not executable (searched /p, /q)`,
		},
		{ErrNoDir, errdefs.Refused, "CNI configuration directory does not exist"},
	} {
		if got := test.err.Error(); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
		if got := errdefs.Of(test.err); got != test.kind {
			t.Errorf("%s: kind %v, want %v", test.err, got, test.kind)
		}
	}
	if !errors.Is(BrokenFile{Err: fs.ErrPermission}, fs.ErrPermission) {
		t.Error("the reason of a broken file is not wrapped")
	}
}

func TestLoadErrors(t *testing.T) {
	if _, err := Load("/nonexistent"); err == nil || err.Error() != "CNI configuration directory does not exist: create /nonexistent and put network configurations there" {
		t.Errorf("missing directory: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file); err == nil || errors.Is(err, ErrNoDir) {
		t.Errorf("a file is read as a directory: %v", err)
	}
}

func TestParseNetwork(t *testing.T) {
	n, err := ParseNetwork("x.conflist: delegates[0]", []byte(`{"cniVersion": "1.0.0", "name": "a", "allocnet": {"jobs": []}, "plugins": [{"type": "bridge"}]}`))
	if err != nil || n.Name != "a" || n.Path != "x.conflist: delegates[0]" || string(n.Options.Data) != `{"jobs": []}` {
		t.Errorf("%+v, %v", n, err)
	}
	for text, want := range map[string]string{
		`{"cniVersion": "1.0.0", "name": "a"}`:                                   "x: no plugins",
		`{"cniVersion": "1.0.0", "name": "A/", "plugins": [{"type": "bridge"}]}`: `x: name "A/": want letters, digits, '_', '.' and '-', beginning with a letter or digit`,
		`{"cniVersion": "0.2.0", "name": "a", "type": "bridge"}`:                 `x: cniVersion "0.2.0": want 0.3.0 to 1.1.0`,
		`{"cniVersion": "1.0.0", "name": "a", "type": "../x"}`:                   `x: plugins[0]: type "../x": want the name of a plugin, not a path`,
	} {
		if _, err := ParseNetwork("x", []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestListOfOne: a list of plugins comes before the type of a single one, and the configuration of a single plugin keeps
// what a plugin reads.
func TestListOfOne(t *testing.T) {
	for text, want := range map[string]string{
		`{"cniVersion": "1.0.0", "name": "a", "type": "x", "plugins": [{"type":"bridge"}]}`:      `{"type":"bridge"}`,
		`{"cniVersion": "1.0.0", "name": "a", "disableCheck": true, "mtu": 1, "type": "bridge"}`: `{"cniVersion":"1.0.0","mtu":1,"name":"a","type":"bridge"}`,
	} {
		list, err := ParseList([]byte(text))
		if err != nil || len(list.Plugins) != 1 || string(list.Plugins[0].Bytes) != want {
			t.Errorf("%s: %+v, %v, want %s", text, list, err, want)
		}
	}
}

// TestGateways: what names no gateway has none.
func TestGateways(t *testing.T) {
	n, err := ParseNetwork("x", []byte(`{"cniVersion": "1.0.0", "name": "a", "type": "ptp", "ipam": {
		"addresses": [{"address": "10.0.0.2/24"}, {"address": "10.0.0.3/24", "gateway": "::ffff:10.0.0.1"}], "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0", "gw": "fd00::1"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(n.Gateways()); got != "[10.0.0.1 fd00::1]" {
		t.Errorf("gateways %s", got)
	}
}

// TestSubdirectoryIsFile: plugins that cannot be read are not none.
func TestSubdirectoryIsFile(t *testing.T) {
	c := load(t, map[string]string{"a": "", "a.conflist": `{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "bridge"}]}`})
	if n, err := c.Lookup("a"); err == nil || !strings.Contains(err.Error(), "read plugin directory") {
		t.Errorf("%+v, %v", n, err)
	}
}

func TestCheckPluginReasons(t *testing.T) {
	dir := t.TempDir()
	n, err := ParseNetwork("x", []byte(`{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "gone"}, {"type": "dir"}, {"type": "text"}, {"type": "loop"}, {"type": "ok"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(dir+"/dir", 0o755), os.WriteFile(dir+"/text", nil, 0o644), os.WriteFile(dir+"/ok", nil, 0o755), os.Symlink("loop", dir+"/loop")); err != nil {
		t.Fatal(err)
	}
	want := `network "a": plugin "dir" is not a regular file, plugin "gone" is not installed, ` +
		`plugin "loop" cannot be read: stat ` + dir + `/loop: too many levels of symbolic links, plugin "text" is not executable (searched ` + dir + `)`
	if err := n.CheckPlugins([]string{dir}); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestRenderErrors(t *testing.T) {
	for plugin, want := range map[string]string{
		`{"type": "bridge", "args": "x"}`:        `network "a": plugins[0]: args: json: cannot unmarshal string into Go value of type map[string]json.RawMessage`,
		`{"type": "bridge", "args": {"cni": 1}}`: `network "a": plugins[0]: args.cni: json: cannot unmarshal number into Go value of type map[string]json.RawMessage`,
	} {
		n, err := ParseNetwork("x", []byte(`{"cniVersion": "1.0.0", "name": "a", "plugins": [`+plugin+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Render(Edit{CNIArgs: map[string]any{"k": "v"}}); err == nil || err.Error() != want {
			t.Errorf("%s\ngot  %v\nwant %s", plugin, err, want)
		}
	}
}
