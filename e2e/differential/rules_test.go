// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ruleCache has the rules of the host. A process reads them only if they have changed.
type ruleCache struct {
	generation uint32
	lines      []string
	known      bool
}

// read returns the rules of all backends, one line each, with its place in its chain.
func (r *ruleCache) read() ([]string, error) {
	generation, err := ruleGeneration()
	if err != nil {
		return nil, err
	}
	if !r.known || generation != r.generation {
		if r.lines, err = readRules(); err != nil {
			return nil, err
		}
		r.generation, r.known = generation, true
	}
	legacy, err := legacyRules()
	return slices.Concat(r.lines, legacy), err
}

// ruleGeneration returns the number that each transaction of nftables increases.
func ruleGeneration() (uint32, error) {
	request := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETGEN, 0)
	request.AddData(&nl.Nfgenmsg{Version: nl.NFNETLINK_V0})
	messages, err := request.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil || len(messages) == 0 {
		return 0, fmt.Errorf("read the generation of nftables: %w", err)
	}
	attrs, err := nl.ParseRouteAttr(messages[0][nl.SizeofNfgenmsg:])
	if err != nil {
		return 0, err
	}
	for _, attr := range attrs {
		if attr.Attr.Type == unix.NFTA_GEN_ID {
			return binary.BigEndian.Uint32(attr.Value), nil
		}
	}
	return 0, fmt.Errorf("nftables has no generation")
}

// listings are commands of nft that list all tables. One process translates targets of iptables
// only for the family that it lists first.
var listings = []string{"list ruleset ip", "list ruleset ip6", "list ruleset inet; list ruleset arp; list ruleset bridge; list ruleset netdev"}

func readRules() ([]string, error) {
	var lines []string
	for _, commands := range listings {
		text, err := output("nft", commands)
		if err != nil {
			return nil, err
		}
		lines = append(lines, ruleset(text)...)
	}
	if lines == nil {
		return nil, nil
	}
	for _, program := range []string{"iptables-nft-save", "ip6tables-nft-save"} {
		text, err := output(program)
		if err != nil {
			return nil, err
		}
		lines = append(lines, saved(program, text)...)
	}
	return lines, nil
}

// legacyRules returns the rules of the old backend of iptables, if the host has its tables.
func legacyRules() ([]string, error) {
	var lines []string
	for _, family := range []string{"", "6"} {
		if names, _ := os.ReadFile("/proc/thread-self/net/ip" + family + "_tables_names"); len(names) == 0 {
			continue
		}
		program := "ip" + family + "tables-legacy-save"
		text, err := output(program)
		if err != nil {
			return nil, err
		}
		lines = append(lines, saved(program, text)...)
	}
	return lines, nil
}

func output(words ...string) (string, error) {
	out, err := exec.Command(words[0], words[1:]...).Output()
	if err != nil {
		return "", fmt.Errorf("%v: %w", words, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// counters matches what changes without a transaction.
var counters = regexp.MustCompile(`\[\d+:\d+\]|counter packets \d+ bytes \d+`)

// builtin matches a chain of iptables that lets everything pass. iptables-nft lists one for a
// table without chains, too.
var builtin = regexp.MustCompile(`^:[A-Z]+ ACCEPT`)

// saved returns the lines of iptables-save: each rule with its number in its chain. Tables without
// rules are none: listing a table makes it.
func saved(program, text string) []string {
	var lines []string
	table, number := "", map[string]int{}
	for line := range strings.SplitSeq(counters.ReplaceAllString(text, ""), "\n") {
		switch {
		case line == "" || line == "COMMIT" || strings.HasPrefix(line, "#") || builtin.MatchString(line):
			continue
		case strings.HasPrefix(line, "*"):
			table, number = line, map[string]int{}
		case strings.HasPrefix(line, "-A "):
			chain := strings.Fields(line)[1]
			number[chain]++
			lines = append(lines, fmt.Sprintf("%s %s %s %d %s", program, table, chain, number[chain], line))
		default:
			lines = append(lines, fmt.Sprintf("%s %s %s", program, table, line))
		}
	}
	return lines
}

// iptablesTable matches the beginning of a table of iptables.
var iptablesTable = regexp.MustCompile(`^table ip6? (nat|filter) {$`)

// ruleset returns the lines of "nft list ruleset": each with its table, its chain and its number
// in that.
func ruleset(text string) []string {
	var lines, path []string
	number := 0
	for line := range strings.SplitSeq(counters.ReplaceAllString(text, ""), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case line == "}":
			path, number = path[:len(path)-1], 0
			continue
		}
		if iptablesTable.MatchString(line) {
			path, number = append(path, strings.TrimSuffix(line, " {")), 0
			continue
		}
		number++
		block, opens := strings.CutSuffix(line, " {")
		if !opens {
			block = fmt.Sprintf("%d %s", number, line)
		}
		lines = append(lines, fmt.Sprintf("nft %s %s", strings.Join(path, " "), block))
		if opens {
			path, number = append(path, block), 0
		}
	}
	return lines
}

// TestLongOrderOfTables: which table was made first is no difference.
func TestLongOrderOfTables(t *testing.T) {
	t.Parallel()
	c := ptpFamily.with([]variant{ranges("", v6, v4), set("", map[string]any{"ipMasq": true}), mapped("", nil, web)})
	c.Steps = []string{add, check, del}
	requireSame(t, c)
}
