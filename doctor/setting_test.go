// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"context"
	"path/filepath"
	"testing"
)

func TestBackends(t *testing.T) {
	const rules = `printf '*nat\n:POSTROUTING ACCEPT [0:0]\n-A POSTROUTING -j X\nCOMMIT\n'`
	const none = `printf '*nat\n:POSTROUTING ACCEPT [0:0]\nCOMMIT\n'`
	for name, test := range map[string]struct {
		programs map[string]string
		want     []string
	}{
		"one backend": {map[string]string{"iptables": "true", "iptables-nft-save": rules, "iptables-legacy-save": none}, nil},
		"a failure": {map[string]string{"iptables": "true", "iptables-nft-save": rules, "iptables-legacy-save": rules + "; exit 1"}, []string{
			"warning iptables: the rules of iptables-legacy are not examined: iptables-legacy-save: exit status 1 => run allocnet doctor again",
		}},
		"not there": {nil, []string{"warning iptables: is not installed: without nftables, portmap, firewall and ipMasq need it => apt-get install iptables"}},
		"a table of others": {map[string]string{"iptables": "true", "ip6tables-nft-save": `printf '# Table \140nat\047 is incompatible, use \047nft\047 tool.\n'`}, []string{
			"warning ip6tables-nft: cannot list the table nat, into which another program has put rules of nft: plugins that are executed cannot attach networks => " +
				"nft list ruleset shows these rules: move them to a table of another name, or have the networks executed in process (allocnet networks)",
		}},
		"two backends": {map[string]string{"iptables": "true", "iptables-nft-save": rules, "iptables-legacy-save": rules}, []string{
			"error iptables: nftables and the legacy tables both have rules: the kernel applies both => " +
				"move them to one backend: iptables-legacy-save | iptables-nft-restore --noflush, then flush the legacy tables",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for program, text := range test.programs {
				script(t, filepath.Join(dir, program), text)
			}
			t.Setenv("PATH", dir)
			r := &Report{}
			backends(t.Context(), r, func(context.Context) bool { return false })
			requireFindings(t, r, test.want...)
			with := &Report{}
			backends(t.Context(), with, func(context.Context) bool { return true })
			if missing := test.programs == nil; missing && len(with.Findings) != 0 || !missing && len(with.Findings) != len(r.Findings) {
				t.Errorf("with nftables: %+v", with.Findings)
			}
		})
	}
}
