// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// usable loads two networks of which one has its plugin, and a broken file.
func usable(t *testing.T) Usable {
	t.Helper()
	plugins := t.TempDir()
	for _, name := range []string{"bridge", OwnPlugin} {
		if err := os.WriteFile(filepath.Join(plugins, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return load(t, map[string]string{
		"10-a.conflist": `{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "bridge"}]}`,
		"20-b.conflist": `{"cniVersion": "1.0.0", "name": "b", "plugins": [{"type": "bridge", "ipam": {"type": "gone"}}]}`,
		"30-c.conflist": `{`,
		"40-m.conflist": `{"cniVersion": "1.0.0", "name": "m", "plugins": [{"type": "allocnet-cni", "primary": "a"}]}`,
	}).Usable(Host{PluginDirs: []string{plugins}, HasLink: func(string) (bool, error) { return false, nil }})
}

func TestUsableAll(t *testing.T) {
	got := map[string]string{}
	for n, err := range usable(t).All() {
		var missing *MissingPluginError
		errors.As(err, &missing)
		got[n.Name] = ""
		if missing != nil {
			got[n.Name] = missing.Missing["gone"]
		}
	}
	if diff := cmp.Diff(map[string]string{"a": "", "b": "is not installed", "m": ""}, got); diff != "" {
		t.Errorf("networks (-want +got):\n%s", diff)
	}
	for range usable(t).All() {
		break // the caller may stop early
	}
}

func TestUsableSplit(t *testing.T) {
	networks, problems := usable(t).Split()
	if len(networks) != 1 || networks[0].Name != "a" {
		t.Errorf("networks %v, want a alone: m is what jobs name", networks)
	}
	if len(problems) != 2 || !strings.Contains(problems[0].Error(), `network "b": plugin "gone" is not installed`) || !strings.Contains(problems[1].Error(), "30-c.conflist:1:1: ") {
		t.Errorf("problems %v, want the missing plugin, then the broken file", problems)
	}
}

func TestUsableLookup(t *testing.T) {
	if n, err := usable(t).Lookup("a"); err != nil || n.Name != "a" {
		t.Errorf("a is %v, %v", n, err)
	}
	var missing *MissingPluginError
	if _, err := usable(t).Lookup("b"); !errors.As(err, &missing) || missing.Network != "b" {
		t.Errorf("b is %v, want a *MissingPluginError", err)
	}
	var unknown *NotFoundError
	if _, err := usable(t).Lookup("x"); !errors.As(err, &unknown) || unknown.Name != "x" {
		t.Errorf("x is %v, want a *NotFoundError", err)
	}
}

// TestUsableMaster: a master that another network creates is not missing, if that network
// has its plugins and, in a request, comes before.
func TestUsableMaster(t *testing.T) {
	plugins := t.TempDir()
	for _, name := range []string{"bridge", "macvlan"} {
		if err := os.WriteFile(filepath.Join(plugins, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	broken := errors.New("netlink: interrupted")
	u := load(t, map[string]string{
		"10-on.conflist":   `{"cniVersion": "1.0.0", "name": "on", "plugins": [{"type": "macvlan", "master": "lan0"}]}`,
		"20-gone.conflist": `{"cniVersion": "1.0.0", "name": "gone", "plugins": [{"type": "bridge", "bridge": "lan0"}, {"type": "x"}]}`,
		"30-lan.conflist":  `{"cniVersion": "1.0.0", "name": "lan", "plugins": [{"type": "bridge", "bridge": "lan0"}]}`,
		"40-lost.conflist": `{"cniVersion": "1.0.0", "name": "lost", "plugins": [{"type": "macvlan", "master": "lan1"}]}`,
		"50-odd.conflist":  `{"cniVersion": "1.0.0", "name": "odd", "plugins": [{"type": "macvlan", "master": "odd0"}]}`,
		"60-cni.conflist":  `{"cniVersion": "1.0.0", "name": "cni", "plugins": [{"type": "bridge"}]}`,
		"70-over.conflist": `{"cniVersion": "1.0.0", "name": "over", "plugins": [{"type": "macvlan", "master": "cni0"}]}`,
	}).Usable(Host{PluginDirs: []string{plugins}, HasLink: func(name string) (bool, error) {
		if name == "odd0" {
			return false, broken
		}
		return false, nil
	}})
	const selectFirst = `network "on": the host has no link lan0: select network lan, which creates it, before network "on", or create it`
	for _, test := range []struct {
		names []string
		want  string
	}{
		{[]string{"lan", "on"}, ""},
		{[]string{"cni", "over"}, ""},
		{[]string{"on"}, selectFirst},
		{[]string{"on", "lan"}, selectFirst},
		{[]string{"cni", "on"}, selectFirst},
		{[]string{"lan", "lost"}, `network "lost": the host has no link lan1: create it, or correct "master"`},
		{[]string{"odd"}, broken.Error()},
	} {
		networks, err := u.LookupAll(test.names)
		if err == nil && (test.want != "" || len(networks) != len(test.names)) || err != nil && (test.want == "" || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%v: %v, %v, want %q", test.names, networks, err, test.want)
		}
	}
	if _, err := u.Lookup("on"); err != nil {
		t.Errorf("by itself: %v", err)
	}
}
