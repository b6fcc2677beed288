// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// newMemoryWithDNS has the networks web, storage and backup with DNS, and plain without.
func newMemoryWithDNS(t *testing.T) *memory {
	t.Helper()
	m := newMemory(t, nil)
	m.network(t, "web", `{"type": "bridge", "dns": {"nameservers": ["10.0.0.1"], "domain": "web.example", "options": ["ndots:1"]}}`)
	m.network(t, "storage", `{"type": "macvlan", "dns": {"nameservers": ["10.0.0.1", "10.1.0.1", "10.1.0.2"], "search": ["storage.example"]}}`)
	m.network(t, "backup", `{"type": "ipvlan", "dns": {"nameservers": ["10.2.0.1", "10.2.0.2"]}}`)
	m.network(t, "plain", "ptp")
	return m
}

func dnsRequest(dns string) Request {
	return Request{
		ID: "a", DNS: dns, Primary: &selection.Element{Name: "web"},
		Networks: []selection.Element{{Name: "plain"}, {Name: "storage"}, {Name: "backup"}},
	}
}

// The DNS of the networks of newMemoryWithDNS.
var (
	webDNS     = DNS{Servers: []string{"10.0.0.1"}, Domain: "web.example", Searches: []string{"web.example"}, Options: []string{"ndots:1"}}
	storageDNS = DNS{Servers: []string{"10.0.0.1", "10.1.0.1", "10.1.0.2"}, Searches: []string{"storage.example"}}
	mergedDNS  = DNS{
		Servers: []string{"10.0.0.1", "10.1.0.1", "10.1.0.2"}, Domain: "web.example",
		Searches: []string{"web.example", "storage.example"}, Options: []string{"ndots:1"},
	}
)

// TestDNS: the request decides, else the primary network, else the host.
func TestDNS(t *testing.T) {
	for name, test := range map[string]struct {
		request, network, host string
		selection              string
		want                   DNS
	}{
		"default":                         {selection: "primary", want: webDNS},
		"merge":                           {request: "merge", selection: "merge", want: mergedDNS},
		"a network":                       {request: "storage", selection: "storage", want: storageDNS},
		"a network without DNS":           {request: "plain", selection: "plain"},
		"host":                            {host: "merge", selection: "merge", want: mergedDNS},
		"network before host":             {host: "merge", network: "storage", selection: "storage", want: storageDNS},
		"request before network and host": {request: "primary", network: "storage", host: "merge", selection: "primary", want: webDNS},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemoryWithDNS(t)
			m.setDNSOptions(t, test.network, test.host)
			got, err := m.Setup(t.Context(), dnsRequest(test.request))
			if err != nil {
				t.Fatal(err)
			}
			if got.DNSSelection != test.selection {
				t.Errorf("selection %q, want %q", got.DNSSelection, test.selection)
			}
			if diff := cmp.Diff(test.want, got.DNS); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// setDNSOptions sets the option of network web, and that of the host.
func (m *memory) setDNSOptions(t *testing.T, network, host string) {
	t.Helper()
	if network != "" {
		m.edit(t, "web", `"plugins"`, `"allocnet": {"dns": "`+network+`"}, "plugins"`)
	}
	if host == "" {
		return
	}
	m.env.Config.PolicyFile = filepath.Join(t.TempDir(), "policy.json")
	if err := os.WriteFile(m.env.Config.PolicyFile, []byte(`{"dns": "`+host+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDNSOfNetworkThatIsNotAttached is refused before any plugin runs.
func TestDNSOfNetworkThatIsNotAttached(t *testing.T) {
	for name, test := range map[string]struct{ request, network, host, want string }{
		"request": {request: "mgmt", want: "want primary, merge, or one of backup, plain, storage, web"},
		"network": {network: "mgmt", want: "web.conflist"},
		"host":    {host: "mgmt", want: "policy.json"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemoryWithDNS(t)
			m.setDNSOptions(t, test.network, test.host)
			_, err := m.Setup(t.Context(), dnsRequest(test.request))
			var refused *RequestError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), `dns "mgmt"`) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
			if calls := m.exec.names(); len(calls) > 0 || len(recorded(t, m.Engine)) > 0 {
				t.Errorf("calls %v, on record %v", calls, recorded(t, m.Engine))
			}
		})
	}
}

// TestDNSAfterChanges: further networks count, detached ones do not. The selection stays.
func TestDNSAfterChanges(t *testing.T) {
	m := newMemoryWithDNS(t)
	r := dnsRequest("merge")
	r.Networks = r.Networks[:1]
	if _, err := m.Setup(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	further := Request{ID: "a", Networks: []selection.Element{{Name: "storage", Interface: "data0"}}}
	got, err := m.Extend(t.Context(), further)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(mergedDNS, got.DNS); diff != "" {
		t.Error(diff)
	}
	if err := m.Detach(t.Context(), "a", "data0"); err != nil {
		t.Fatal(err)
	}
	if got, err = m.Status(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(webDNS, got.DNS); diff != "" {
		t.Error(diff)
	}
	further.DNS = "storage"
	var refused *RequestError
	if _, err := m.Extend(t.Context(), further); !errors.As(err, &refused) || refused.Field != "dns" {
		t.Errorf("Extend with another selection: %v", err)
	}
}

// TestDNSWithoutPrimary: the namespace of another runtime has its main network already.
func TestDNSWithoutPrimary(t *testing.T) {
	m := newMemoryWithDNS(t)
	m.setDNSOptions(t, "", "merge")
	path := m.namespaces.create("/run/netns/runtime")
	m.namespaces.add(path, loopback)
	got, err := m.Extend(t.Context(), Request{ID: "task", Netns: path, Networks: []selection.Element{{Name: "storage"}}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(storageDNS, got.DNS); diff != "" || got.DNSSelection != "merge" {
		t.Errorf("%s: %s", got.DNSSelection, diff)
	}
}

// TestDNSOfNetworkNamedPrimary: the selection "primary" never means a network of this name.
func TestDNSOfNetworkNamedPrimary(t *testing.T) {
	for _, selection := range []string{"", PrimaryDNS} {
		got, _ := onrecord.SelectedDNS(selection, []Attachment{
			{Network: "plain", Primary: true, Phase: state.Attached},
			{Network: "primary", Phase: state.Attached, Observed: Observed{DNS: storageDNS}},
		})
		if diff := cmp.Diff(DNS{}, got); diff != "" {
			t.Errorf("selection %q: %s", selection, diff)
		}
	}
}

// TestDNSOfReattaching: the DNS of an attachment that is being attached again stays that of the allocation.
func TestDNSOfReattaching(t *testing.T) {
	for phase, want := range map[state.Phase]DNS{Reattaching: storageDNS, state.Deleting: {}} {
		got, _ := onrecord.SelectedDNS(PrimaryDNS, []Attachment{{Network: "storage", Primary: true, Phase: phase, Observed: Observed{DNS: storageDNS}}})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", phase, diff)
		}
	}
}
