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
// chains of plugins there.
func TestProgramMissing(t *testing.T) {
	var programs []string
	for _, b := range backends {
		programs = append(programs, b.name)
	}
	chains := map[string]string{"iptables-nft": "ip", "ip6tables-nft": "ip6", "iptables-legacy": "legacy ip", "ip6tables-legacy": "legacy ip6"}
	for gone, place := range chains {
		for chain, want := range map[string]bool{
			"": false, "INPUT": false, "CNI-HOSTPORT-MASQ": false, "CNI-ADMIN": false, "CNI-DN-0": false, "KUBE-FORWARD": false,
			"CNI-" + strings.Repeat("a", 24): true, "CNI-DN-" + strings.Repeat("0", 21): true, "CNI-FORWARD": true,
		} {
			f := newFakeSystem()
			for _, program := range programs {
				f.saved[program] = ""
			}
			delete(f.saved, gone)
			f.chains = map[string][]string{place: {chain}}
			requireMissing(t, f, gone, want)
			for _, program := range programs { // none is installed
				delete(f.saved, program)
			}
			requireMissing(t, f, gone, want)
		}
	}
}

// TestNftMissing is about the tables of plugins in nftables.
func TestNftMissing(t *testing.T) {
	for chain, want := range map[string]bool{"": false, "prerouting": false, "hostports": true, "masquerading": true} {
		f := newFakeSystem()
		f.chains = map[string][]string{"ip cni_hostport": {chain}}
		requireMissing(t, f, "nft", want)
	}
	f := newFakeSystem()
	f.chains = map[string][]string{"ip other": {"hostports"}}
	requireMissing(t, f, "nft", false)
}

func requireMissing(t *testing.T, f *fakeSystem, program string, want bool) {
	t.Helper()
	c := Cleaner{CacheDir: t.TempDir(), host: f.host(catalogue.within(t.TempDir()))}
	err := c.Clean(t.Context(), []state.Leftover{leftover(`{"type": "bridge"}`)})[0]
	var missing *MissingProgramError
	if errors.As(err, &missing) != want || missing != nil && missing.Program != program {
		t.Errorf("%s missing, and the kernel has %v: %v, want an error: %v", program, maps.Clone(f.chains), err, want)
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
