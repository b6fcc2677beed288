// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
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
			"warning iptables: its rules in legacy tables are not examined: iptables-legacy-save: exit status 1 => run allocnet doctor again",
		}},
		"not there": {nil, []string{"warning iptables: is not installed: without nftables, portmap, firewall and ipMasq need it => apt-get install iptables"}},
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
			backends(t.Context(), r)
			requireFindings(t, r, test.want...)
		})
	}
}
