// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/errdefs"
)

// resolving are the long options of iptables and its matches whose values are looked up unless they are addresses.
var resolving = []string{
	"source", "src", "destination", "dst", "ctorigsrc", "ctorigdst", "ctreplsrc", "ctrepldst", "tunnel-src", "tunnel-dst", "mask", "vaddr",
}

// number is a part of what iptables and nft take for an IPv4 address.
var number = regexp.MustCompile(`^(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)$`)

// checkConditions refuses host names in conditions of published ports: iptables and nft look them up at each attach, for as long as
// a server of DNS makes them wait, and CHECK and DEL do not find the rule again once the name has another address.
func checkConditions(n *cniconf.Network) error {
	for _, p := range n.Chain() {
		if p.Type != "portmap" {
			continue
		}
		for key, words := range map[string][]string{"conditionsV4": p.ConditionsV4, "conditionsV6": p.ConditionsV6} {
			if name := hostName(words); name != "" {
				return errdefs.As(errdefs.Refused, fmt.Errorf("%s: %s of portmap has the host name %q, which would be looked up at each attach: want an address or a network, such as 10.0.0.0/8 or fd00::/8", n.Path, key, name))
			}
		}
	}
	return nil
}

// hostName returns the first host name in conditions; empty if there is none. Those of iptables begin with an option or its negation.
func hostName(words []string) string {
	first := strings.TrimLeft(strings.Join(words, " "), " ")
	if strings.HasPrefix(first, "-") || strings.HasPrefix(first, "!") {
		for _, operand := range iptablesOperands(words) {
			for value := range strings.SplitSeq(operand, ",") {
				if address, _, _ := strings.Cut(strings.TrimSpace(value), "/"); isHostName(address) {
					return address
				}
			}
		}
		return ""
	}
	for _, operand := range nftOperands(words) {
		address, _, _ := strings.Cut(operand, "/")
		if slices.ContainsFunc(strings.Split(address, "-"), isHostName) { // a range has two
			return address
		}
	}
	return ""
}

// isHostName tells whether the value of an address is looked up: not an address, nor a set, a variable or the rest of a map.
func isHostName(address string) bool {
	_, err := netip.ParseAddr(address)
	return err != nil && address != "" && !isShortened(address) && !strings.ContainsAny(address[:1], "@$*[")
}

// isShortened tells whether a text is an IPv4 address whose last part has the bits of those that are left out.
func isShortened(address string) bool {
	parts := strings.Split(address, ".")
	for i, part := range parts {
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		if _, err := strconv.ParseUint(part, 0, max(bits, 1)); err != nil || !number.MatchString(part) {
			return false
		}
	}
	return len(parts) <= 4
}

// iptablesOperands returns the values of options that are looked up.
func iptablesOperands(words []string) (operands []string) {
	for i, word := range words {
		long, isLong := strings.CutPrefix(word, "--")
		option, value, joined := strings.Cut(long, "=")
		short, isShort := strings.CutPrefix(word, "-")
		short = strings.TrimLeft(short, "46nvx") // options without a value may be before it
		switch {
		case i > 0 && words[i-1] == "--comment":
		case isLong && !slices.ContainsFunc(resolving, func(name string) bool { return option != "" && strings.HasPrefix(name, option) }):
		case isLong && joined:
			operands = append(operands, value)
		case !isLong && (!isShort || short == "" || short[0] != 's' && short[0] != 'd'):
		case !isLong && len(short) > 1:
			operands = append(operands, short[1:])
		case i+1 < len(words):
			operands = append(operands, words[i+1])
		}
	}
	return operands
}
