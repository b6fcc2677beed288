// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"os"
	"path/filepath"
	"testing"
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
		c := &Changes{}
		for _, r := range append(testFirewall(t, "isolated"), testPortmap(t)) {
			c.rules.add(rules{remove: remove, iptables: r})
		}
		if err := Commit(t.Context(), hold, []*Changes{c})[0]; err == nil {
			t.Errorf("remove %t: no error", remove)
		}
	}
	if changes, err := os.ReadFile(filepath.Join(dir, "without-hold")); err == nil {
		t.Errorf("changes without the hold:\n%s", changes)
	}
}
