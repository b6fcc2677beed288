// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/coreos/go-iptables/iptables"
)

// backend is one of the kernel's four places for iptables rules: a family, in
// nftables or in the legacy tables.
type backend struct {
	// name is that of the program, such as "ip6tables-nft".
	name   string
	family iptables.Protocol
	// names is the kernel's list of legacy tables in use; empty for nftables.
	names string
}

var backends = []backend{
	{"iptables-nft", iptables.ProtocolIPv4, ""},
	{"ip6tables-nft", iptables.ProtocolIPv6, ""},
	{"iptables-legacy", iptables.ProtocolIPv4, "/proc/thread-self/net/ip_tables_names"},
	{"ip6tables-legacy", iptables.ProtocolIPv6, "/proc/thread-self/net/ip6_tables_names"},
}

// installed returns the backends that can be looked at. Where a distribution
// has only one kind of iptables, it has no name of its own.
func installed() []backend {
	var list []backend
	for _, b := range backends {
		if _, err := exec.LookPath(b.name); err == nil {
			list = append(list, b)
		}
	}
	if len(list) > 0 {
		return list
	}
	for _, b := range []backend{{"iptables", iptables.ProtocolIPv4, ""}, {"ip6tables", iptables.ProtocolIPv6, ""}} {
		if _, err := exec.LookPath(b.name); err == nil {
			list = append(list, b)
		}
	}
	return list
}

// used tells whether the backend can hold rules. To look at legacy tables that
// do not exist would create them.
func (b backend) used() bool {
	if b.names == "" {
		return true
	}
	names, err := os.ReadFile(b.names)
	return err == nil && len(bytes.TrimSpace(names)) > 0
}

// scan lists the backend's objects.
func (b backend) scan(ctx context.Context) (Found, error) {
	var found Found
	if !b.used() {
		return found, nil
	}
	text, err := b.run(ctx, nil, b.name+"-save")
	if err != nil {
		return found, err
	}
	chains, rules, problems := parseRules(text)
	for _, p := range problems {
		found.problem(b.name, p)
	}
	found.Objects = append(allocationChains(b, chains, rules), firewallRules(b, rules)...)
	return found, nil
}

func (b backend) run(ctx context.Context, stdin []byte, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// remove removes the chains and rules of objects in one transaction. Where
// that fails, because the host has changed since the scan, each is removed by
// itself. The result has an error for each object that is still there.
func (b backend) remove(ctx context.Context, objects []Object) []error {
	errs := make([]error, len(objects))
	_, err := b.run(ctx, b.transaction(objects), b.name+"-restore", "--noflush", "--wait", "30")
	if err == nil {
		return errs
	}
	tables, openErr := iptables.New(iptables.IPFamily(b.family), iptables.Path(b.name), iptables.Timeout(30))
	for i, o := range objects {
		if openErr != nil {
			errs[i] = errors.Join(err, openErr)
			continue
		}
		errs[i] = removeChain(tables, o.chain)
	}
	return errs
}

// transaction is what iptables-restore gets. Rules go in the order in which
// they were listed, so that each is found first in what is left of its chain.
// To declare a chain empties it, and makes it where it is gone already.
func (b backend) transaction(objects []Object) []byte {
	var text bytes.Buffer
	for _, table := range []string{"filter", "nat"} {
		declare, rules, drop := []string{}, []rule{}, []string{}
		for _, o := range objects {
			if o.chain.table != table {
				continue
			}
			rules = append(rules, o.chain.rules...)
			if name := o.chain.name; name != "" {
				declare = append(declare, fmt.Sprintf(":%s - [0:0]\n", name))
				drop = append(drop, fmt.Sprintf("-X %s\n", name))
			}
		}
		if len(rules)+len(drop) == 0 {
			continue
		}
		fmt.Fprintf(&text, "*%s\n%s", table, strings.Join(declare, ""))
		slices.SortStableFunc(rules, func(a, b rule) int { return cmp.Compare(a.number, b.number) })
		for _, r := range rules {
			fmt.Fprintf(&text, "-D%s\n", strings.TrimPrefix(r.line, "-A"))
		}
		fmt.Fprintf(&text, "%sCOMMIT\n", strings.Join(drop, ""))
	}
	return text.Bytes()
}

// removeChain removes one object with a process for each step.
func removeChain(tables *iptables.IPTables, c *chain) error {
	for _, r := range c.rules {
		if err := tables.DeleteIfExists(c.table, r.chain, r.words[2:]...); err != nil {
			return err
		}
	}
	if c.name == "" {
		return nil
	}
	exists, err := tables.ChainExists(c.table, c.name)
	if err != nil || !exists {
		return err
	}
	return tables.ClearAndDeleteChain(c.table, c.name)
}
