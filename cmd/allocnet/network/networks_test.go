// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package network

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/state"
)

// offering returns the offer of a host with networks, whose plugin is installed.
func offering(t *testing.T, ready func(*cniconf.Network) error) offer {
	t.Helper()
	conf, plugins := t.TempDir(), t.TempDir()
	write := func(path, text string, mode os.FileMode) {
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(plugins, "dummy"), "", 0o700)
	for i, rules := range map[string]string{
		"open": `{}`, "prod": `{"namespaces": ["prod"]}`, "db": `{"jobs": ["db-*"], "namespaces": ["!dev"]}`, "typo": `{"job": []}`, "few": `{"maxAttachments": 0}`,
	} {
		write(filepath.Join(conf, i+".conflist"), fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %q, "allocnet": %s, "plugins": [{"type": "dummy"}]}`, i, rules), 0o600)
	}
	write(filepath.Join(plugins, "allocnet-cni"), "", 0o700)
	write(filepath.Join(conf, "multi.conflist"), `{"cniVersion": "1.0.0", "name": "multi", "plugins": [{"type": "allocnet-cni", "primary": "open"}]}`, 0o600)
	write(filepath.Join(conf, "gone.conf"), `{"cniVersion": "1.1.0", "name": "gone", "type": "absent"}`, 0o600)
	catalog, err := cniconf.Load(conf)
	if err != nil || len(catalog.Broken) > 0 {
		t.Fatal(err, catalog.Broken)
	}
	return offer{catalog, policy.Source{File: "/etc/allocnet/policy.json"}, ready, hook.Config{PluginDirs: []string{plugins}}}
}

// TestReady: each network says what is known of it.
func TestReady(t *testing.T) {
	o := offering(t, func(n *cniconf.Network) error {
		switch n.Name {
		case "open":
			return nil
		case "prod":
			return errors.New("no fabric")
		}
		return fmt.Errorf("network %q: %w", n.Name, hook.ErrNoStatus)
	})
	failed := notReady
	if cli.RequireRoot() != nil {
		failed = readyUnknown
	}
	want := map[string]ready{"open": isReady, "prod": failed, "db": notReported, "few": notReported, "typo": notReady, "gone": notReady, "multi": forJobs}
	for n, err := range o.engine.Usable(o.catalog).All() {
		got := o.describe(n, err)
		if got.Ready != want[n.Name] {
			t.Errorf("%s: %s, want %s", n.Name, got.Ready, want[n.Name])
		}
		if bad := got.Ready == notReady || got.Ready == readyUnknown; bad != (got.Problem != "") {
			t.Errorf("%s: ready %s, problem %q", n.Name, got.Ready, got.Problem)
		}
	}
}

// TestNotForJobs: a conflist of allocnet-cni that says that it is not ready, as for a key that it does not know, is not for jobs.
func TestNotForJobs(t *testing.T) {
	o := offering(t, func(*cniconf.Network) error { return errors.New("unknown key") })
	n, err := o.catalog.Lookup("multi")
	if err != nil {
		t.Fatal(err)
	}
	if got := o.describe(n, nil); got.Ready == forJobs || got.Ready == isReady || !strings.Contains(got.Problem, "unknown key") {
		t.Errorf("%s, %q, want why it is not ready", got.Ready, got.Problem)
	}
}

// TestNotOffered: what jobs name is shown, and is no network to attach.
func TestNotOffered(t *testing.T) {
	o := offering(t, func(*cniconf.Network) error { return hook.ErrNoStatus })
	v, _ := o.viewAll(&cli.Settings{NomadDir: t.TempDir()}, policy.Identity{}) // some are not ready
	if slices.Contains(v.Names, "multi") || !slices.Contains(v.Names, "open") {
		t.Errorf("%q can be attached", v.Names)
	}
	var out bytes.Buffer
	if err := v.Table(&out, cli.Terminal{Columns: 80}); err != nil || !regexp.MustCompile(`(?m)^multi +for jobs `).Match(out.Bytes()) || !regexp.MustCompile(`(?m)^open +yes `).Match(out.Bytes()) {
		t.Errorf("%v\n%s", err, &out)
	}
	if _, err := o.catalog.Lookup("mulit"); err == nil || strings.Contains(err.Error(), "multi") {
		t.Errorf("an unknown name: %v", err)
	}
}

// TestPermittedNetworks: a rule counts where the identity has what it is about.
func TestPermittedNetworks(t *testing.T) {
	o := offering(t, nil)
	for _, test := range []struct {
		identity policy.Identity
		want     string
	}{
		{policy.Identity{}, "db few gone multi open prod typo"},
		{policy.Identity{Namespace: "prod"}, "db few gone multi open prod"},
		{policy.Identity{Namespace: "dev"}, "few gone multi open"},
		{policy.Identity{Job: "web"}, "few gone multi open prod"},
		{policy.Identity{Job: "db-1", Namespace: "test"}, "db few gone multi open"},
	} {
		var names []string
		for _, n := range o.catalog.Networks {
			if o.permits(n, test.identity) {
				names = append(names, n.Name)
			}
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("%+v: %s, want %s", test.identity, got, test.want)
		}
	}
}

// TestOneNetwork is shown with its configuration.
func TestOneNetwork(t *testing.T) {
	o := offering(t, func(*cniconf.Network) error { return hook.ErrNoStatus })
	v, err := o.viewOne(&cli.Settings{}, "prod")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := v.Table(&out, cli.Terminal{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"prod.conflist\n", "Ready                yes\n", "namespaces prod\n", "unrestricted (/etc/allocnet/policy.json)", "\n      \"type\": \"dummy\"\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	var missing *cniconf.NotFoundError
	if _, err := o.viewOne(&cli.Settings{}, "none"); !errors.As(err, &missing) {
		t.Errorf("none: %v", err)
	}
	if _, err := o.viewOne(&cli.Settings{}, "gone"); cli.ExitCode(err) != cli.ExitFailed {
		t.Errorf("a missing plugin: %v", err)
	}
}

// TestNetworksOnTerminal: a table fits 80 columns, also with long names; a pipe gets all.
func TestNetworksOnTerminal(t *testing.T) {
	all := catalogJSON{Networks: []networkJSON{{
		Name: "replication", Path: "/opt/cni/config/20-replication.conflist", CNIVersion: "1.0.0", Plugins: []string{"bridge", "portmap", "firewall", "tuning"},
		Capabilities: []string{"portMappings", "ips"}, Subnets: []netip.Prefix{netip.MustParsePrefix("10.200.100.0/24"), netip.MustParsePrefix("fd00:200:100::/64")},
		Ready: notReported, Executor: state.InProcess, Policy: "namespaces prod, staging; jobs db-*; ips; at most 12 attachments",
	}, {Name: "lan", Plugins: []string{"macvlan"}, Ready: notReady, Policy: "unrestricted"}}}
	for columns, want := range map[int][]string{80: {"fd00:200:100::/64", "SUBNETS", "portmap\n", "namespaces prod,"}, 0: {"CAPABILITIES", "portMappings,ips", "20-replication.conflist", "10.200.100.0/24,fd00:200:100::/64"}} {
		var out bytes.Buffer
		if err := printCatalog(&out, cli.Terminal{Columns: columns}, all); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if columns > 0 && len(strings.TrimSuffix(line, "\n")) > columns {
				t.Errorf("longer than %d columns: %q", columns, line)
			}
		}
		for _, text := range want {
			if !strings.Contains(strings.ReplaceAll(out.String(), " \n", "\n"), strings.TrimSuffix(text, "\n")) {
				t.Errorf("%d columns: no %q in\n%s", columns, text, &out)
			}
		}
	}
}

// TestOutputIsEscaped: others choose texts that a terminal must not act on.
func TestOutputIsEscaped(t *testing.T) {
	hostile := "gone\x1b[2J\u202e"
	var out bytes.Buffer
	err := printNetwork(&out, cli.Terminal{}, networkDetailJSON{Shadowed: []string{hostile}, Configuration: json.RawMessage(`{"name": "` + "\u202e" + `"}`)})
	if text := out.String(); err != nil || strings.ContainsAny(text, "\x1b\u202e") || !strings.Contains(text, `\x1b[2J\u202e`) {
		t.Errorf("%q, %v", text, err)
	}
}
