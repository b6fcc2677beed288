// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/errdefs"
)

// resolving are the long options of iptables and its matches whose values are looked up unless they are addresses.
var resolving = []string{
	"source", "src", "destination", "dst", "ctorigsrc", "ctorigdst", "ctreplsrc", "ctrepldst", "tunnel-src", "tunnel-dst", "mask",
}

// nftAddress is an address of a packet and what it is compared with, as nft reads it.
var nftAddress = regexp.MustCompile(`\b[sd]addr\s+(?:(?:==|!=|eq|ne)\s+)?(\{[^}]*\}|[^\s;]+)`)

// checkConditions refuses host names in conditions of published ports: iptables and nft look them up at each attach, for as long as
// a server of DNS makes them wait, and CHECK and DEL do not find the rule again once the name has another address.
func checkConditions(n *cniconf.Network) error {
	for _, p := range n.List.Plugins {
		var conf struct {
			V4 []string `json:"conditionsV4"`
			V6 []string `json:"conditionsV6"`
		}
		if p.Network.Type != "portmap" || json.Unmarshal(p.Bytes, &conf) != nil { // the plugin will say what is wrong
			continue
		}
		for key, words := range map[string][]string{"conditionsV4": conf.V4, "conditionsV6": conf.V6} {
			if name := hostName(words); name != "" {
				return errdefs.As(errdefs.Refused, fmt.Errorf("%s: %s of portmap has the host name %q, which would be looked up at each attach: want an address or a network, such as 10.0.0.0/8 or fd00::/8", n.Path, key, name))
			}
		}
	}
	return nil
}

// hostName returns the first host name in conditions; empty if there is none.
func hostName(words []string) string {
	for _, operand := range append(iptablesOperands(words), nftOperands(words)...) {
		for _, value := range strings.FieldsFunc(operand, func(r rune) bool { return strings.ContainsRune("{}, \t", r) }) {
			address, _, _ := strings.Cut(value, "/")
			if isHostName(address) {
				return address
			}
		}
	}
	return ""
}

// isHostName tells whether the value of an address is looked up: not one of digits and dots, which may be shortened, of IPv6, nor the
// name of a set.
func isHostName(address string) bool {
	hasLetter := strings.ContainsFunc(address, func(r rune) bool { return r > '9' })
	return hasLetter && !strings.ContainsAny(address, ":@$")
}

// iptablesOperands returns the values of options that are looked up.
func iptablesOperands(words []string) (operands []string) {
	for i, word := range words {
		long, isLong := strings.CutPrefix(word, "--")
		option, value, joined := strings.Cut(long, "=")
		switch {
		case isLong && !slices.ContainsFunc(resolving, func(name string) bool { return option != "" && strings.HasPrefix(name, option) }):
		case isLong && joined:
			operands = append(operands, value)
		case !isLong && len(word) > 2 && (word[:2] == "-s" || word[:2] == "-d"):
			operands = append(operands, word[2:])
		case (isLong || word == "-s" || word == "-d") && i+1 < len(words):
			operands = append(operands, words[i+1])
		}
	}
	return operands
}

// nftOperands returns what addresses are compared with.
func nftOperands(words []string) (operands []string) {
	for _, found := range nftAddress.FindAllStringSubmatch(strings.Join(words, " "), -1) {
		if operand := found[1]; operand != "vmap" && operand != "map" {
			operands = append(operands, operand)
		}
	}
	return operands
}
