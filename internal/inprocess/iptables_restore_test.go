// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coreos/go-iptables/iptables"
)

// TestRestoreWaits: iptables-restore waits for another process that changes rules.
func TestRestoreWaits(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	for _, name := range []string{"iptables-restore", "ip6tables-restore"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho \"${0##*/} $*\" >>"+dir+"/calls\n"), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	for _, family := range []iptables.Protocol{iptables.ProtocolIPv4, iptables.ProtocolIPv6} {
		changes := &iptablesTransaction{}
		changes.begin("nat")
		changes.commit()
		if err := (&iptablesHost{ctx: t.Context(), family: family}).restore(changes); err != nil {
			t.Error(err)
		}
	}
	const want = "iptables-restore --noflush --wait=30\nip6tables-restore --noflush --wait=30"
	if calls, err := os.ReadFile(dir + "/calls"); err != nil || strings.TrimSpace(string(calls)) != want {
		t.Errorf("called is %q, %v; want %q", calls, err, want)
	}
}
