// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func primary(t *testing.T) *Network {
	t.Helper()
	n, err := ParseNetwork("web.conflist", []byte(`{"cniVersion": "1.1.0", "name": "web", "allocnet": {"namespaces": ["prod"]}, "plugins": [
		{"type": "bridge", "capabilities": {"mac": true, "aliases": true}}, {"type": "portmap", "capabilities": {"portMappings": true}}, {"type": "bandwidth", "capabilities": {"bandwidth": false}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestMulti(t *testing.T) {
	got, err := Multi{Name: "multi", Primary: primary(t), Networks: "mgmt", ConfDirs: []string{"/etc/networks", "/opt/cni/config"}, DataDir: "/opt/nomad/data"}.ConfList()
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "cniVersion": "1.0.0",
  "name": "multi",
  "plugins": [
    {
      "type": "allocnet-cni",
      "capabilities": {
        "mac": true,
        "portMappings": true
      },
      "primary": "web",
      "networks": "mgmt",
      "confDir": "/etc/networks:/opt/cni/config",
      "dataDir": "/opt/nomad/data"
    }
  ]
}
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestMultiByTheAgent(t *testing.T) {
	got, err := Multi{Name: "multi", Primary: primary(t), Agent: &MultiAgent{Mode: "require"}}.ConfList()
	if err != nil {
		t.Fatal(err)
	}
	if want := "\"agent\": {\n        \"mode\": \"require\"\n      }"; !strings.Contains(string(got), want) {
		t.Errorf("%s has no %s", got, want)
	}
}

// TestMultiKeepsTheName puts the network inside, under another.
func TestMultiKeepsTheName(t *testing.T) {
	got, err := Multi{Name: "web", Primary: primary(t)}.ConfList()
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{`"name": "web"`, `"name": "web-primary"`, `"namespaces"`, `"loadOnlyInlinedPlugins": true`} {
		if !strings.Contains(string(got), word) {
			t.Errorf("no %s in %s", word, got)
		}
	}
	if strings.Contains(string(got), `"primary": `) {
		t.Errorf("the primary stands inside and is named besides: %s", got)
	}
}

func TestMultiRefusesNames(t *testing.T) {
	for _, name := range []string{"Multi", "", "a/b", "-a"} {
		if _, err := (Multi{Name: name, Primary: primary(t)}).ConfList(); err == nil || !strings.Contains(err.Error(), "small letters") {
			t.Errorf("%q: %v", name, err)
		}
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
