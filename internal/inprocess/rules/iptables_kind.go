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

// CurrentKind returns which one iptables is on this host now. Distributions have links to programs that have its name.
func CurrentKind() Kind {
	path, err := exec.LookPath("iptables-restore")
	if err != nil {
		return ""
	}
	name, _ := filepath.EvalSymlinks(path)
	switch name = filepath.Base(name); {
	case strings.Contains(name, "legacy"):
		return KindLegacy
	case strings.Contains(name, "nft"):
		return KindNFT
	}
	return ""
}

// program returns the name of a program: iptables, ip6tables-restore and so on. The kind has a name of its own where
// the host's iptables is the other one by now, or none. One that is unknown, as a script, may be any.
func (k Kind) program(family netfilter.Family, suffix string) string {
	name := family.Program()
	current := CurrentKind()
	_, missing := exec.LookPath("iptables-restore")
	if k != "" && k != current && (current != "" || missing != nil) {
		name += "-" + string(k)
	}
	return name + suffix
}

// kindsOf returns those of the attachments, each once.
func kindsOf(all []*Set) []Kind {
	var kinds []Kind
	for _, c := range all {
		if !slices.Contains(kinds, c.Kind) {
			kinds = append(kinds, c.Kind)
		}
	}
	return kinds
}
