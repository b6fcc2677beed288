// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestIsStrict: the setting of all interfaces counts, too, and the loose one wins.
func TestIsStrict(t *testing.T) {
	for values, want := range map[[2]string]bool{{"0", "1"}: true, {"1", "0"}: true, {"1", "1"}: true, {"2", "1"}: false, {"1", "2"}: false, {"0", "0"}: false, {"", ""}: false} {
		if got := isStrict(values[0], values[1]); got != want {
			t.Errorf("%q for all, %q for the interface: %t, want %t", values[0], values[1], got, want)
		}
	}
}

// TestUnread: what a program does not tell is not taken for nothing; one that is not installed has nothing to tell.
func TestUnread(t *testing.T) {
	const chains = `echo '{"nftables": [{"chain": {"family": "inet", "table": "t", "name": "c", "hook": "forward", "policy": "drop"}}]}'`
	for name, test := range map[string]struct {
		nft, firewalld string
		want           []string
	}{
		"neither is installed":   {"", "", nil},
		"nft fails":              {"echo no >&2; exit 1", "", []string{"nft: exit status 1: no"}},
		"a table is not listed":  {`[ "$3" = chains ] && ` + chains + ` || exit 1`, "", []string{"nft: exit status 1"}},
		"a table was deleted":    {`[ "$3" = chains ] && ` + chains + ` || { echo 'Error: No such file or directory' >&2; exit 1; }`, "", nil},
		"firewalld does not run": {"", "exit 252", nil},
		"firewalld is killed":    {"", "[ $1 = --state ] && echo running || exit 1", []string{"the zones of firewalld are not known: firewall-cmd: exit status 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for program, text := range map[string]string{"nft": test.nft, "firewall-cmd": test.firewalld} {
				if text == "" {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", dir)
			f := &Facts{}
			f.unread(f.collectNftables(t.Context(), []string{Forward}, nil))
			f.unread(f.collectFirewalld(t.Context()))
			for i, want := range test.want {
				if len(f.Unread) <= i || !strings.HasPrefix(f.Unread[i].Error(), want) {
					t.Errorf("unread is %v, want %s", f.Unread, want)
				}
			}
			if len(f.Unread) != len(test.want) {
				t.Errorf("unread is %v, want %v", f.Unread, test.want)
			}
		})
	}
}
