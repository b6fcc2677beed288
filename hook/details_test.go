// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/state"
)

// TestDetails: what is recorded of each attachment, and its rules, without a change or a repair.
func TestDetails(t *testing.T) {
	w, seen := repairWorld(t)
	w.failing["CHECK macvlan net2"] = errors.New("a rule")
	for range 2 {
		all, err := w.Details(t.Context(), "runtime")
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range all {
			if d.ContainerID == "" || d.Executor != state.InProcess || d.CNIVersion == "" || len(d.Plugins) == 0 || d.Updated.IsZero() || d.RulesError != "" {
				t.Errorf("%+v", d)
			}
			var want []Rule
			if d.Interface == "net2" {
				want = []Rule{{Program: "iptables", Table: "nat", Chain: "POSTROUTING", Rule: "a rule"}}
			}
			if !slices.Equal(d.Rules, want) {
				t.Errorf("%s has %+v, want %+v", d.Interface, d.Rules, want)
			}
		}
	}
	if len(*seen) > 0 {
		t.Errorf("observed %v", *seen)
	}
	if _, err := w.Details(t.Context(), "other"); errdefs.Of(err) != errdefs.NotFound {
		t.Errorf("another allocation: %v", err)
	}
}

// TestDetailsOfUnknownPlugins: that their rules are not known is said.
func TestDetailsOfUnknownPlugins(t *testing.T) {
	w := newWorld(t, install(t))
	if err := setup(runtimeRequest)(w); err != nil {
		t.Fatal(err)
	}
	all, err := w.Details(t.Context(), "runtime")
	if err != nil || len(all) == 0 || all[0].RulesError != errUnknownRules.Error() || all[0].Executor != state.Plugins {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestDetailsOfLeases: whose the leases of an attachment's addresses are.
func TestDetailsOfLeases(t *testing.T) {
	const config = `{"cniVersion": "1.1.0", "name": "web", "plugins": [{"type": "bridge", "ipam": %s}]}`
	dir := t.TempDir()
	local := fmt.Sprintf(`{"type": "host-local", "dataDir": %q, "subnet": "10.0.0.0/24"}`, dir)
	shared := fmt.Sprintf(`{"type": "allocnet-ipam", "pool": "p", "ranges": [{"subnet": "10.0.0.0/24"}], "reserved": ["10.0.0.248/29"], "dataDir": %q}`, dir)
	for _, test := range []struct{ name, ipam, address, file, content, block, problem string }{
		{"host-local", local, "10.0.0.5", "web/10.0.0.5", "c\r\neth0", "", ""},
		{"of an old version", local, "10.0.0.5", "web/10.0.0.5", "c", "", ""},
		{"allocnet-ipam", shared, "10.0.0.70", "p/10.0.0.70", "c\r\neth0", "10.0.0.64/26", ""},
		{"reserved", shared, "10.0.0.249", "p/10.0.0.249", "c\r\neth0", "", ""},
		{"none", local, "10.0.0.5", "web/10.0.0.6", "c\r\neth0", "", "there is no lease"},
		{"of another one", local, "10.0.0.5", "web/10.0.0.5", "other\r\neth0", "", `container "other", interface "eth0" has the lease`},
		{"of another interface", local, "10.0.0.5", "web/10.0.0.5", "c\r\neth1", "", `interface "eth1" has`},
		{"unreadable", local, "10.0.0.5", "web/10.0.0.5/x", "", "", "10.0.0.5"},
		{"not of the pool", local, "192.0.2.5", "web/10.0.0.5", "c\r\neth0", "", "-"},
		{"no pool", `{"type": "dhcp"}`, "10.0.0.5", "web/10.0.0.5", "c\r\neth0", "", "-"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(dir, test.file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(test.content), 0o600)); err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			a := state.Attachment{Network: "web", Interface: "eth0", ContainerID: "c", ConfList: fmt.Appendf(nil, config, test.ipam),
				Result: fmt.Appendf(nil, `{"cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": "/x"}], "ips": [{"address": "%s/24", "interface": 0}]}`, test.address)}
			list, err := cniconf.ParseList(a.ConfList)
			if err != nil {
				t.Fatal(err)
			}
			all := leasesOf(a, (&cniconf.Network{Name: "web", List: list}).Pools())
			if test.problem == "-" {
				if len(all) > 0 {
					t.Errorf("got %+v", all)
				}
				return
			}
			if len(all) != 1 {
				t.Fatalf("got %+v", all)
			}
			l := all[0]
			block := ""
			if l.Block.IsValid() {
				block = l.Block.String()
			}
			if (l.Problem == "") != (test.problem == "") || !strings.Contains(l.Problem, test.problem) || block != test.block || l.Address.String() != test.address || (l.Plugin == "host-local") != (l.Pool == "web") {
				t.Errorf("got %+v", l)
			}
			if test.problem == "" && l.Since.IsZero() {
				t.Error("it is not known since when")
			}
		})
	}
}
