// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/state"
)

// TestProgramMissing: what a program would list is unknown while it is not installed, and not empty, if the kernel has
// chains there that can be the attachment's.
func TestProgramMissing(t *testing.T) {
	var programs []string
	for _, b := range backends {
		programs = append(programs, b.name)
	}
	places := map[string]string{"iptables-nft": "ip", "ip6tables-nft": "ip6", "iptables-legacy": "legacy ip", "ip6tables-legacy": "legacy ip6"}
	for gone, place := range places {
		for chain, want := range map[string]bool{
			"": false, "INPUT": false, "CNI-HOSTPORT-MASQ": false, "CNI-ADMIN": false, "KUBE-FORWARD": false,
			"CNI-" + hash("weba1", 24): true, "CNI-DN-" + hash("weba1", 21): true, "CNI-FORWARD": true,
			"CNI-" + hash("weba2", 24): false, "hostports": false, "CNI-DN-" + hash("weba2", 21): false,
		} {
			f := newFakeSystem()
			for _, program := range programs {
				f.saved[program] = ""
			}
			delete(f.saved, gone)
			f.chains = map[string][]string{place: {chain}}
			requireUnlisted(t, f, gone, want)
			for _, program := range programs { // none is installed
				delete(f.saved, program)
			}
			requireUnlisted(t, f, gone, want)
			if strings.HasSuffix(gone, "-nft") { // it is, and calls the table incompatible
				f.saved[gone] = "# Table `nat' is incompatible, use 'nft' tool.\n"
				requireUnlisted(t, f, gone, want)
			}
		}
	}
}

// TestUnlistedGC: gc does not know what is in chains of attachments that are not on record. Those of a record are another's matter.
func TestUnlistedGC(t *testing.T) {
	known := []Owner{ownerOf("web", "a1", "eth0")}
	for chain, want := range map[string]bool{
		"": false, "CNI-FORWARD": false, "CNI-" + hash("weba1", 24): false, "CNI-DN-" + hash("weba1", 21): false,
		"CNI-" + hash("weba2", 24): true, "CNI-DN-" + hash("weba2", 21): true,
	} {
		f := newFakeSystem()
		f.chains = map[string][]string{"ip": {chain}}
		_, err := scanner{cacheDir: t.TempDir(), known: known, host: f.host(catalogue.within(t.TempDir()))}.scan(t.Context())
		if (err != nil) != want {
			t.Errorf("%q: %v, want an error: %v", chain, err, want)
		}
	}
}

func requireUnlisted(t *testing.T, f *fakeSystem, program string, want bool) {
	t.Helper()
	c := Cleaner{CacheDir: t.TempDir(), host: f.host(catalogue.within(t.TempDir()))}
	err := c.Clean(t.Context(), []state.Leftover{leftover(`{"type": "bridge"}, {"type": "portmap"}, {"type": "firewall"}`)})[0]
	if want != (err != nil) || want && !strings.Contains(err.Error(), program+" ") {
		t.Errorf("%s, and the kernel has %v: %v, want an error: %v", program, maps.Clone(f.chains), err, want)
	}
}

// TestKernelDoesNotTell: what the kernel does not tell is unknown.
func TestKernelDoesNotTell(t *testing.T) {
	for _, call := range []string{"legacy tables", "legacy chains", "nft chains"} {
		f := newFakeSystem()
		if f.errs[call] = errFake; call == "legacy tables" {
			f.saved["iptables-legacy"] = ""
		}
		c := Cleaner{CacheDir: t.TempDir(), host: f.host(catalogue.within(t.TempDir()))}
		if err := c.Clean(t.Context(), []state.Leftover{leftover(`{"type": "bridge"}`)})[0]; !errors.Is(err, errFake) {
			t.Errorf("%s: %v", call, err)
		}
	}
}
