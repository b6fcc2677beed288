// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coreos/go-iptables/iptables"
	"github.com/google/nftables"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/knftables"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/iptableslegacy"
)

// MissingProgramError is a place for rules that has chains of plugins, and whose program is not installed: what
// of them is left by whom is unknown.
type MissingProgramError struct {
	Program string
	Chains  []string
}

func (e *MissingProgramError) Error() string {
	return fmt.Sprintf("%s is not installed, and the kernel has chains that it lists: %s: install it, and repeat this", e.Program, strings.Join(e.Chains, ", "))
}

// Kind is that of package errdefs.
func (*MissingProgramError) Kind() errdefs.Kind { return errdefs.Failed }

// missing has an error if the kernel has chains of plugins in the place of a program that is not installed.
func missing(h *host, program string, family knftables.Family, table string, isOfPlugin func(chain string) bool) (scanResult, error) {
	list := h.programs.nftChains
	if strings.HasSuffix(program, "-legacy") {
		list = h.programs.legacyChains
	}
	chains, err := list(family, table)
	if err != nil {
		return scanResult{}, fmt.Errorf("%s is not installed: %w", program, err)
	}
	chains = slices.DeleteFunc(chains, func(name string) bool { return !isOfPlugin(name) })
	if len(chains) == 0 {
		return scanResult{}, nil
	}
	slices.Sort(chains)
	return scanResult{}, &MissingProgramError{program, slices.Compact(chains)}
}

// ofPlugin tells whether plugins make chains of the name with iptables.
func (c catalog) ofPlugin(chain string) bool {
	for l := range c.leaks() {
		if slices.ContainsFunc(l.chains, func(p chainPattern) bool { return p.name.matches(chain) }) ||
			slices.ContainsFunc(l.rules, func(p rulePattern) bool { return p.chain == chain }) {
			return true
		}
	}
	return false
}

// ofPlugin tells whether plugins make rules of attachments in a chain of the table.
func (t nftTable) ofPlugin(chain string) bool {
	return slices.Contains(t.chains, chain) || t.own.prefix != "" && t.own.matches(chain)
}

func (system) legacyChains(family knftables.Family, _ string) ([]string, error) {
	proto := iptables.ProtocolIPv4
	if family == knftables.IPv6Family {
		proto = iptables.ProtocolIPv6
	}
	tables, err := iptableslegacy.Tables(proto)
	if err != nil {
		return nil, err
	}
	var words []string
	for _, table := range tables {
		entries, err := iptableslegacy.Read(proto, table)
		if err != nil {
			return nil, err
		}
		words = append(words, strings.Split(string(entries), "\x00")...)
	}
	return words, nil
}

func (system) nftChains(family knftables.Family, table string) ([]string, error) {
	families := map[knftables.Family]nftables.TableFamily{
		knftables.IPv4Family: nftables.TableFamilyIPv4, knftables.IPv6Family: nftables.TableFamilyIPv6, knftables.InetFamily: nftables.TableFamilyINet,
	}
	conn, err := nftables.New()
	if err != nil {
		return nil, err
	}
	chains, err := conn.ListChainsOfTableFamily(families[family])
	var names []string
	for _, c := range chains {
		if table != "" && c.Table.Name != table {
			continue
		}
		rules, listErr := conn.GetRules(c.Table, c)
		if err = errors.Join(err, listErr); len(rules) > 0 {
			names = append(names, c.Name)
		}
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) { // the kernel has no nftables, or the chain is gone
		err = nil
	}
	return names, err
}
