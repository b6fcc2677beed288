// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/selection"
)

// resolvLines returns the lines of an allocation's resolv.conf without the first.
func resolvLines(t *testing.T, a *Allocation) string {
	t.Helper()
	data, err := os.ReadFile(a.ResolvConf)
	if err != nil {
		t.Fatal(err)
	}
	_, lines, _ := strings.Cut(string(data), "\n")
	return lines
}

// TestResolvConf has the selected DNS of what is attached, and goes with the namespace.
func TestResolvConf(t *testing.T) {
	m := newMemoryWithDNS(t)
	r := dnsRequest("merge")
	r.Networks = r.Networks[:1]
	a, err := m.Setup(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(m.env.Config.ResolvConfDir, "a", "resolv.conf"); a.ResolvConf != want {
		t.Errorf("path %s, want %s", a.ResolvConf, want)
	}
	const web, storage = "nameserver 10.0.0.1\n", "nameserver 10.1.0.1\nnameserver 10.1.0.2\n"
	if got := resolvLines(t, a); got != web+"search web.example\noptions ndots:1\n" {
		t.Errorf("after Setup: %q", got)
	}
	if _, err := m.Extend(t.Context(), Request{ID: "a", Networks: []selection.Element{{Name: "storage", Interface: "data0"}}}); err != nil {
		t.Fatal(err)
	}
	if got := resolvLines(t, a); got != web+storage+"search web.example storage.example\noptions ndots:1\n" {
		t.Errorf("after Extend: %q", got)
	}
	if err := m.Detach(t.Context(), "a", "data0"); err != nil {
		t.Fatal(err)
	}
	if got := resolvLines(t, a); got != web+"search web.example\noptions ndots:1\n" {
		t.Errorf("after Detach: %q", got)
	}
	m.env.Config.ResolvConfDir = t.TempDir() // the path is on record
	if err := m.Teardown(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Dir(a.ResolvConf)); !os.IsNotExist(err) {
		t.Errorf("after Teardown: %v", err)
	}
}

// TestResolvConfOfHost: without DNS of its networks a namespace has the host's servers that
// it can reach, and the host's settings that its networks lack.
func TestResolvConfOfHost(t *testing.T) {
	for name, test := range map[string]struct {
		request Request
		host    string
		want    string
		warning string
	}{
		"servers": {
			request: Request{ID: "a", Primary: &selection.Element{Name: "plain"}},
			host:    "nameserver 192.0.2.1\nsearch host.example\noptions rotate\n",
			want:    "nameserver 192.0.2.1\nsearch host.example\noptions rotate\n",
		},
		"what the networks lack": {
			request: Request{ID: "a", DNS: "searching", Networks: []selection.Element{{Name: "searching"}}},
			host:    "nameserver 192.0.2.1\nsearch host.example\noptions rotate\n",
			want:    "nameserver 192.0.2.1\nsearch own.example\noptions rotate\n",
		},
		"only loopback": {
			request: Request{ID: "a", Primary: &selection.Element{Name: "plain"}},
			host:    "nameserver 127.0.0.53\n",
			want:    "# No network of the allocation has name servers, and the host has none that other namespaces can use.\n",
			warning: "no name servers for the namespace",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			m := newMemoryWithDNS(t)
			m.env.Config.Logger = hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Warn})
			m.network(t, "searching", `{"type": "bridge", "dns": {"domain": "own.example"}}`)
			m.env.Config.HostResolvConf = []string{filepath.Join(t.TempDir(), "resolv.conf")}
			if err := os.WriteFile(m.env.Config.HostResolvConf[0], []byte(test.host), 0o600); err != nil {
				t.Fatal(err)
			}
			a, err := m.Setup(t.Context(), test.request)
			if err != nil {
				t.Fatal(err)
			}
			if got := resolvLines(t, a); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if got := log.String(); !strings.Contains(got, test.warning) || (got != "") != (test.warning != "") {
				t.Errorf("logged %q, want %q", got, test.warning)
			}
		})
	}
}

// TestResolvConfOfOperator is used as it is, and stays.
func TestResolvConfOfOperator(t *testing.T) {
	var log bytes.Buffer
	m := newMemoryWithDNS(t)
	m.env.Config.Logger = hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Warn})
	path := filepath.Join(m.env.Config.ResolvConfDir, "a", "resolv.conf")
	const text = "nameserver 192.0.2.9\n"
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Setup(t.Context(), dnsRequest("")); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), path) {
		t.Errorf("logged %q, want %s", log.String(), path)
	}
	if err := m.Teardown(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != text {
		t.Errorf("%q, %v", got, err)
	}
}

// TestNoResolvConfInNamespaceOfRuntime: the runtime has its own.
func TestNoResolvConfInNamespaceOfRuntime(t *testing.T) {
	m := newMemoryWithDNS(t)
	r := dnsRequest("merge")
	r.Netns = m.namespaces.create("/run/netns/runtime")
	a, err := m.Setup(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(m.env.Config.ResolvConfDir); err != nil || len(entries) > 0 || a.ResolvConf != "" {
		t.Errorf("%v, %v; path %q", entries, err, a.ResolvConf)
	}
}

// TestResolvConfThatCannotBeWritten fails the set-up, and nothing is left.
func TestResolvConfThatCannotBeWritten(t *testing.T) {
	m := newMemoryWithDNS(t)
	if err := os.WriteFile(filepath.Join(m.env.Config.ResolvConfDir, "a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Setup(t.Context(), dnsRequest("")); err == nil || !strings.Contains(err.Error(), "resolv.conf") {
		t.Errorf("Setup: %v", err)
	}
	if ids := recorded(t, m.Engine); len(ids) > 0 || m.namespaces.Exists(filepath.Join(m.env.Config.NetnsDir, "a")) {
		t.Errorf("on record are %v", ids)
	}
}
