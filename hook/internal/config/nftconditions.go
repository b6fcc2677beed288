// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"net"
	"regexp"
	"slices"
	"strings"
)

// nftToken is a text in quotes, a mark, operators, or a word.
var nftToken = regexp.MustCompile(`"[^"]*"|[{}(),]|[!<>=&|^]+|[^\s{}(),"!<>=&|^]+`)

// Words with which a selector of nft begins: it is that word, or further ones follow.
var (
	nftShort = strings.Fields(`iif oif iifname oifname iiftype oiftype iifkind oifkind iifgroup oifgroup ibrname obrname mark skuid skgid
		pkttype rtclassid cpu cgroup time day hour`)
	nftLong = strings.Fields(`meta ct ip ip6 tcp udp udplite sctp dccp icmp icmpv6 igmp arp ether vlan th ah esp comp hbh frag dst mh
		rt rt0 rt2 rt4 srh socket osf gre snat dnat dup`)
	nftQualifiers = strings.Fields("original reply ip ip6 option")
)

// nftOperands returns what addresses are compared with, as nft reads it.
func nftOperands(words []string) (operands []string) {
	var tokens []string
	for _, token := range nftToken.FindAllString(strings.Join(words, " "), -1) {
		tokens = append(tokens, nftKey(token)...)
	}
	for len(tokens) > 0 {
		columns, rest := nftSelectors(tokens)
		switch {
		case len(columns) > 0:
			rest, operands = nftCompared(rest, columns, operands)
		case tokens[0] == "{": // the elements of a dynamic set are selectors, which are compared with nothing
			rest, _ = nftCompared(tokens, nil, nil)
		default:
			rest = tokens[1:]
		}
		tokens = rest
	}
	return operands
}

// nftKey divides an element of a map that is written without spaces.
func nftKey(token string) []string {
	last := strings.LastIndex(token, ":")
	address, _, _ := strings.Cut(token, "/")
	_, err := net.ParseMAC(token)
	if last < 0 || token[0] == '"' || err == nil || !slices.ContainsFunc(strings.Split(address, "-"), isHostName) {
		return []string{token}
	}
	return slices.DeleteFunc([]string{token[:last], ":", token[last+1:]}, func(part string) bool { return part == "" })
}

// nftSelectors returns what a selector, or each part of a concatenation, is: whether an address. It returns what follows, too.
func nftSelectors(tokens []string) (isAddress []bool, rest []string) {
	for width := nftWidth(tokens); width > 0; width = nftWidth(tokens[1:]) {
		if len(isAddress) > 0 {
			tokens = tokens[1:]
		}
		last := tokens[width-1]
		isAddress = append(isAddress, !slices.Contains([]string{"ether", "arp", "fib", "jhash"}, tokens[0]) &&
			slices.Contains([]string{"saddr", "daddr", "taddr", "nexthop", "to"}, last))
		tokens = tokens[width:]
		if len(tokens) == 0 || tokens[0] != "." {
			break
		}
	}
	return isAddress, tokens
}

// nftWidth returns how many words the selector has with which tokens begin; 0 if they begin with none.
func nftWidth(tokens []string) int {
	until := func(words ...string) int {
		return slices.IndexFunc(tokens, func(token string) bool { return slices.Contains(words, token) }) + 1
	}
	switch {
	case len(tokens) == 0:
		return 0
	case tokens[0] == "fib":
		return until("type", "oif", "oifname")
	case tokens[0] == "jhash":
		return until("mod")
	case slices.Contains(nftShort, tokens[0]):
		return 1
	case !slices.Contains(nftLong, tokens[0]):
		return 0
	}
	width := 1
	for width < len(tokens) && slices.Contains(nftQualifiers, tokens[width]) {
		width++
	}
	return min(width+1, len(tokens))
}

// nftCompared adds what the addresses of a concatenation are compared with: a set, or a value each, with masks. It returns what follows, too.
func nftCompared(tokens []string, isAddress []bool, addresses []string) (rest, compared []string) {
	at, isNext, inSet := 0, true, false
	for i, token := range tokens {
		switch {
		case token == "}":
			return tokens[i+1:], addresses
		case token == "{":
			inSet = true
		case token == ".":
			at, isNext = at+1, true
		case token == ",":
			at, isNext = 0, true
		case token == ":": // what follows is not compared
			at = len(isAddress)
		case token == "set" && nftWidth(tokens[i+1:]) > 0:
			return tokens[i+1:], addresses
		case isNFTOperator(token):
			isNext = true
		case !isNext && !inSet:
			return tokens[i:], addresses
		case isNext:
			if isNext = false; at < len(isAddress) && isAddress[at] {
				addresses = append(addresses, strings.Trim(token, `"`))
			}
		}
	}
	return nil, addresses
}

// isNFTOperator tells whether a value follows.
func isNFTOperator(token string) bool {
	words := []string{"(", ")", "-", "and", "or", "xor", "not", "eq", "ne", "lt", "le", "gt", "ge", "lshift", "rshift", "set", "map", "vmap"}
	return strings.ContainsAny(token[:1], "!<>=&|^") || slices.Contains(words, token)
}
