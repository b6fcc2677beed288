// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// offered has a network with rules, and the conflist of allocnet-cni that replaces it
// in an earlier file.
func offered(t *testing.T) (c *Catalog, replaced string) {
	t.Helper()
	dir := confDir(t, map[string]string{
		"00-web.conflist": `{"cniVersion": "1.0.0", "name": "web", "plugins": [{"type": "allocnet-cni"}]}`,
		"10-web.conflist": `{"cniVersion": "1.1.0", "name": "web", "allocnet": {"namespaces": ["prod"]}, "plugins": [
			{"type": "bridge", "capabilities": {"mac": true, "aliases": true}},
			{"type": "portmap", "capabilities": {"portMappings": true}},
			{"type": "bandwidth", "capabilities": {"bandwidth": false}}]}`,
	})
	c, err := LoadExcept(dir+"/00-web.conflist", dir)
	if err != nil {
		t.Fatal(err)
	}
	return c, dir + "/00-web.conflist"
}

func TestLoadExcept(t *testing.T) {
	c, path := offered(t)
	if n, err := c.Lookup("web"); err != nil || n.Path == path || len(c.Shadowed) != 0 {
		t.Errorf("web is %+v, %v, want that of the other file", n, err)
	}
	if err := os.WriteFile(path, []byte(`{"name": "web", "allocnet": {`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := LoadExcept(c.Dirs[0]+"//./00-web.conflist", c.Dirs...)
	if err != nil || len(c.Networks) != 1 || len(c.Broken) != 0 {
		t.Errorf("%+v, %v, want the broken file left out", c, err)
	}
}

// TestMulti has each form of the conflist, for the command line and the agent.
func TestMulti(t *testing.T) {
	for name, test := range map[string]struct {
		multi Multi
		want  string
	}{
		"another name": {
			Multi{Name: "multi", Primary: "web", Networks: "mgmt", ConfDirs: []string{"/etc/networks", "/opt/cni/config"}, AllocDir: "/opt/nomad/data/alloc"},
			`"primary": "web", "networks": "mgmt", "confDir": "/etc/networks:/opt/cni/config", "allocDir": "/opt/nomad/data/alloc"`,
		},
		"directories": {
			Multi{Name: "multi", Primary: "web", PluginDir: "/opt/cni/bin", StateDir: "/srv/state"},
			`"primary": "web", "pluginDir": "/opt/cni/bin", "stateDir": "/srv/state"`,
		},
		"executor": {
			Multi{Name: "multi", Primary: "web", Executor: "plugins"},
			`"primary": "web", "executor": "plugins"`,
		},
		"identity": {
			Multi{Name: "multi", Primary: "web", Identity: "unknown"},
			`"primary": "web", "identity": "unknown"`,
		},
		"delegated to the agent": {
			Multi{Name: "multi", Primary: "web", Agent: &MultiAgent{Mode: "require"}},
			`"primary": "web", "agent": {"mode": "require"}`,
		},
		"job networks": {
			Multi{Name: "multi", Primary: "web", Agent: &MultiAgent{Mode: "require", JobNetworks: true}},
			`"primary": "web", "agent": {"mode": "require", "jobNetworks": true}`,
		},
		"at another socket": {
			Multi{Name: "multi", Primary: "web", Agent: &MultiAgent{Socket: "/run/a.sock"}},
			`"primary": "web", "agent": {"socket": "/run/a.sock"}`,
		},
		"the primary's name": {
			Multi{Name: "web", Primary: "web"},
			`"delegates": [{"allocnet": {"namespaces": ["prod"]}, "cniVersion": "1.1.0", "loadOnlyInlinedPlugins": true, "name": "web-primary", "plugins": [
				{"type": "bridge", "capabilities": {"mac": true, "aliases": true}},
				{"type": "portmap", "capabilities": {"portMappings": true}},
				{"type": "bandwidth", "capabilities": {"bandwidth": false}}]}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := offered(t)
			got, err := test.multi.ConfList(c)
			if err != nil {
				t.Fatal(err)
			}
			want := `{"cniVersion": "1.0.0", "name": "` + test.multi.Name + `", "plugins": [
				{"type": "allocnet-cni", "capabilities": {"mac": true, "portMappings": true}, ` + test.want + `}]}`
			if diff := cmp.Diff(decoded(t, want), decoded(t, string(got))); diff != "" {
				t.Errorf("conflist (-want +got):\n%s", diff)
			}
			if again, err := test.multi.ConfList(c); err != nil || string(again) != string(got) {
				t.Errorf("the second time it is %s, %v", again, err)
			}
			if list, err := ParseList(got); err != nil || list.Name != test.multi.Name {
				t.Errorf("the conflist does not parse: %v", err)
			}
		})
	}
}

func decoded(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return value
}

func TestMultiRefuses(t *testing.T) {
	c, _ := offered(t)
	for _, name := range []string{"Multi", "", "a/b", "-a"} {
		_, err := Multi{Name: name, Primary: "web"}.ConfList(c)
		want := fmt.Sprintf("name %q: want lowercase letters, digits, '_', '.' and '-', beginning with a letter or digit", name)
		if errdefs.Of(err) != errdefs.Refused || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
	var unknown *NotFoundError
	if _, err := (Multi{Name: "multi", Primary: "wob"}).ConfList(c); !errors.As(err, &unknown) || unknown.Name != "wob" {
		t.Errorf("unknown primary: %v, want a *NotFoundError", err)
	}
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "00-multi.conflist")
	for _, text := range []string{"first", "second"} {
		if err := Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o644 {
		t.Errorf("mode %v, %v, want 0644: runtimes need not be root", info.Mode(), err)
	}
}
