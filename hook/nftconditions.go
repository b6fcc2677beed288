// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"regexp"
	"slices"
	"strings"
)

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
