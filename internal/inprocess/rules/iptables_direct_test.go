// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootJumps: what leads to the chain of an attachment is known by the handles after the chain's, and by a listing where other
// rules were made between, or later. A rule of another program that leads there is an error.
func TestRootJumps(t *testing.T) {
	roottest.Require(t)
	r := testChain(netfilter.IPv4)
	const shared = "-N CNI-DNAT\n-N CNI-MARK\n-A CNI-DNAT -j RETURN\n"
	const chain = "-N CNI-DN-id\n-A CNI-DN-id -s 127.0.0.1 -j CNI-MARK\n-A CNI-DN-id -p tcp -j DNAT --to-destination 10.0.0.5:80\n"
	const call = "-A CNI-DNAT -m comment --comment \"dnat id\" -j CNI-DN-id\n"
	others := strings.Repeat("-A CNI-DNAT -j RETURN\n", mostGuesses)
	for name, test := range map[string]struct {
		rules         []string
		guessed, want int
		err           error
	}{
		"one transaction":      {[]string{shared, chain + call}, 1, 1, nil},
		"the jump is earlier":  {[]string{shared, strings.Replace(chain, "-A", call+"-A", 1)}, 1, 1, nil},
		"others between":       {[]string{shared, chain, others, call}, 0, 1, nil},
		"many others between":  {[]string{shared, strings.Replace(chain, "-A", others+"-A", 1) + call}, 0, 1, nil},
		"a second one later":   {[]string{shared, chain + call, others, call}, 1, 2, nil},
		"none":                 {[]string{shared, chain}, 0, 0, nil},
		"of another program":   {[]string{shared, chain + call, others, "-A CNI-DNAT -j CNI-DN-id\n"}, 1, 0, errCalled},
		"only another's":       {[]string{shared, chain + "-A CNI-DNAT -j CNI-DN-id\n"}, 0, 0, errCalled},
		"the chain is missing": {[]string{shared}, 0, 0, nil},
	} {
		netnstest.Run(t, func() error {
			for _, lines := range test.rules {
				cmd := exec.CommandContext(t.Context(), "iptables-nft-restore", "--noflush")
				cmd.Stdin = strings.NewReader("*nat\n" + lines + "COMMIT\n")
				if out, err := cmd.CombinedOutput(); err != nil {
					return fmt.Errorf("%w: %s", err, out)
				}
			}
			s, err := netfilter.Dial(t.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			table := &netfilter.Table{Family: netfilter.IPv4, Name: "nat"}
			own, err := s.List(table, r.Chain)
			if err != nil {
				return err
			}
			found, _, err := s.FindChain(table, r.Chain)
			if err != nil {
				return err
			}
			if guessed := r.jumpsMadeWith(s.Listings(), table, found.Handle, own); len(guessed) != test.guessed {
				t.Errorf("%s: guessed are %d, want %d", name, len(guessed), test.guessed)
			}
			jumps, err := r.jumps(s.Listings(), table)
			if len(jumps) != test.want || !errors.Is(err, test.err) {
				t.Errorf("%s: %d jumps, %v, want %d, %v", name, len(jumps), err, test.want, test.err)
			}
			return nil
		})
	}
}
