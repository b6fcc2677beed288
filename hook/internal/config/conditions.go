// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/errdefs"
)

// resolving are the long options of iptables and its matches whose values are looked up unless they are addresses.
var resolving = []string{
	"source", "src", "destination", "dst", "ctorigsrc", "ctorigdst", "ctreplsrc", "ctrepldst", "tunnel-src", "tunnel-dst", "mask", "vaddr",
}

// number is what iptables and nft take for an IPv4 address, which may be shortened, or for a range of them.
var number = regexp.MustCompile(`^(?:(?:0[xX][0-9a-fA-F]+|[0-9]+)\.?)*$`)

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

// hostName returns the first host name in conditions; empty if there is none.
func hostName(words []string) string {
	for _, operand := range iptablesOperands(words) {
		for value := range strings.SplitSeq(operand, ",") {
			if address, _, _ := strings.Cut(strings.TrimSpace(value), "/"); isHostName(address) {
				return address
			}
		}
	}
	for _, operand := range nftOperands(words) {
		address, _, _ := strings.Cut(operand, "/")
		if slices.ContainsFunc(strings.Split(address, "-"), isHostName) { // a range has two
			return address
		}
	}
	return ""
}

// isHostName tells whether the value of an address is looked up: not a number, one of IPv6, nor the name of a set.
func isHostName(address string) bool {
	return !number.MatchString(address) && !strings.ContainsAny(address, ":@$")
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

// nftToken is a text in quotes, a mark, operators, or a word.
var nftToken = regexp.MustCompile(`"[^"]*"|[{}(),]|[!<>=&|^]+|[^\s{}(),"!<>=&|^]+`)

// nftOperands returns what addresses are compared with, as nft reads it. Of concatenations it reads those of sets alone.
func nftOperands(words []string) (operands []string) {
	tokens := nftToken.FindAllString(strings.Join(words, " "), -1)
	for i := 1; i < len(tokens); i++ {
		if !isNFTAddress(tokens[i-1], tokens[i]) {
			continue
		}
		rest := tokens[i+1:]
		if column := nftColumn(tokens[:i]); column > 0 || len(rest) > 0 && rest[0] == "." {
			operands = append(operands, nftColumnOf(rest, column)...)
		} else {
			operands = append(operands, nftValues(rest)...)
		}
	}
	return operands
}

// isNFTAddress tells whether two words are an address of a packet or of its route, not one of Ethernet.
func isNFTAddress(before, word string) bool {
	return slices.Contains([]string{"saddr", "daddr", "nexthop"}, word) && slices.Contains([]string{"ip", "ip6", "original", "reply", "rt"}, before)
}

// nftColumn returns how many parts of a concatenation are before its last one.
func nftColumn(tokens []string) (column int) {
	for _, token := range slices.Backward(tokens) {
		switch token {
		case "}":
			return column
		case ".":
			column++
		}
	}
	return column
}

// nftColumnOf returns a part of each element of the set with which a concatenation is compared, whose other parts may be before it.
func nftColumnOf(tokens []string, column int) (values []string) {
	open := slices.IndexFunc(tokens, func(token string) bool { return strings.ContainsAny(token[:1], `{@"0123456789`) })
	if open < 0 || tokens[open] != "{" {
		return nil
	}
	at := 0
	for _, token := range tokens[open+1:] {
		switch {
		case token == "}":
			return values
		case token == ",":
			at = 0
		case token == ".":
			at++
		case token == ":": // what follows is not compared
			at = -len(tokens)
		case at == column:
			values = append(values, token)
		}
	}
	return values
}

// nftValues returns what one address is compared with: a set, or a value, and before that the mask.
func nftValues(tokens []string) (values []string) {
	for i, token := range tokens {
		switch {
		case token == "{":
			return append(values, nftColumnOf(tokens[i:], 0)...)
		case isNFTOperator(token):
		default:
			values = append(values, strings.Trim(token, `"`))
			if i+1 == len(tokens) || !isNFTOperator(tokens[i+1]) {
				return values
			}
		}
	}
	return values
}

// isNFTOperator tells whether a value of an address follows.
func isNFTOperator(token string) bool {
	words := []string{"(", ")", "and", "or", "xor", "eq", "ne", "lt", "le", "gt", "ge", "map", "vmap"}
	return strings.ContainsAny(token[:1], "!<>=&|^") || slices.Contains(words, token)
}
