// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// Kind is which program iptables is: rules of one are none of the other's. Empty: that of the host now, or unknown.
type Kind string

// Kinds of iptables.
const (
	KindNFT    Kind = "nft"
	KindLegacy Kind = "legacy"
)

// CurrentKind returns which one iptables is on this host now.
func CurrentKind() Kind {
	kind, _ := hostKind()
	return kind
}

// hostKind also tells whether the host has iptables. Distributions have links to programs that have its name.
func hostKind() (kind Kind, installed bool) {
	path, err := exec.LookPath("iptables-restore")
	if err != nil {
		return "", false
	}
	name, _ := filepath.EvalSymlinks(path)
	switch name = filepath.Base(name); {
	case strings.Contains(name, "legacy"):
		return KindLegacy, true
	case strings.Contains(name, "nft"):
		return KindNFT, true
	}
	return "", true
}

// program returns the name of a program: iptables, ip6tables-restore and so on. The kind has a name of its own where
// the host's iptables is the other one by now, or none. One that is unknown, as a script, may be any.
func (k Kind) program(family netfilter.Family, suffix string) string {
	if k == "" {
		return family.Program() + suffix
	}
	current, installed := hostKind()
	return k.programBeside(current, installed, family, suffix)
}

// programBeside is program, on a host whose iptables is known.
func (k Kind) programBeside(current Kind, installed bool, family netfilter.Family, suffix string) string {
	name := family.Program()
	if k != "" && k != current && (current != "" || !installed) {
		name += "-" + string(k)
	}
	return name + suffix
}

func kindsOf(all []*Set) []Kind {
	var kinds []Kind
	for _, c := range all {
		if !slices.Contains(kinds, c.Kind) {
			kinds = append(kinds, c.Kind)
		}
	}
	return kinds
}
