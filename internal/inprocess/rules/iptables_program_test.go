// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// fakeIPTables is a host where every change fails. It has all rules if the file "exist" is in
// its directory, else none. Each change of a process that has not inherited the hold is a line
// of another file there.
const fakeIPTables = `#!/bin/sh
case "$0 $*" in
*--version*) echo "iptables v1.8.9 (legacy)"; exit 0 ;;
*iptables-restore*|*" -N "*|*" -A "*|*" -I "*|*" -D "*) [ -e /proc/$$/fd/3 ] || echo "$0 $*" >>"${0%/*}/without-hold" ;;
*" -C "*) [ -e "${0%/*}/exist" ]; exit ;;
*" -S "*) [ -e "${0%/*}/exist" ] && echo "-A CNI-FORWARD -s 10.0.0.5/32 -j ACCEPT"; exit ;;
esac
exit 1
`

// TestChangesInheritHold: a program that changes rules has the hold, also where each rule is
// changed by itself.
func TestChangesInheritHold(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"iptables", "iptables-restore"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(fakeIPTables), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	hold, err := os.Create(filepath.Join(dir, "hold"))
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	for _, remove := range []bool{false, true} {
		if remove {
			err = os.WriteFile(filepath.Join(dir, "exist"), nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		c, errs := &Set{}, make([]error, 1)
		for _, r := range []*IPTables{testAddress(), testChain(netfilter.IPv4)} {
			c.Add(Change{Remove: remove, IPTables: r})
		}
		host := Open(t.Context(), hold, []*Set{c})
		host.Commit([]*Set{c}, errs)
		host.Close()
		if errs[0] == nil {
			t.Errorf("remove %t: no error", remove)
		}
	}
	if changes, err := os.ReadFile(filepath.Join(dir, "without-hold")); err == nil {
		t.Errorf("changes without the hold:\n%s", changes)
	}
}
