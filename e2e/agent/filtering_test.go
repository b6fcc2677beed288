// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// filtering configures what the agent does about filters, as docs/cluster.md says.
func (s *spanning) filtering(value string) {
	s.Helper()
	text, err := cluster.Example("tested: filtering", "hcl")
	if err != nil {
		s.Fatal(err)
	}
	s.configure("ipam {}\n" + strings.NewReplacer("cluster {", "cluster {\n  address = \"10.99.0.1\"", "accept", value).Replace(text))
}

// hasRules is whether the host has rules for the pool.
func (s *spanning) hasRules() bool {
	return strings.Contains(sandbox.Run(s.T, "iptables-nft-save"), "-A FORWARD -j ALLOCNET-FORWARD")
}

// isFiltered is whether the status says that packets are dropped.
func (s *spanning) isFiltered() bool {
	out, _ := s.allocnet("cluster", "status")
	return strings.Contains(out, "problem (filtered)")
}

// TestFiltering: a policy that drops packets is reported, and with filtering = "accept" there are rules
// against it: also when the agent has stopped or was killed, until the configuration says otherwise or the
// host leaves.
func TestFiltering(t *testing.T) {
	sandbox.Run(t, "iptables-nft", "-P", "FORWARD", "DROP")
	t.Cleanup(func() { sandbox.Run(t, "iptables-nft", "-P", "FORWARD", "ACCEPT") })
	s := newSpanning(t)
	block := s.other()
	s.address.Store(otherAddress)
	s.start()
	s.await("the policy is reported", s.isFiltered)
	if s.hasRules() {
		t.Error("there are rules without filtering = \"accept\"")
	}
	s.filtering("accept")
	if err := s.cmd.Process.Signal(unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.await("there are rules", s.hasRules)
	s.await("nothing is reported", func() bool { return !s.isFiltered() })
	s.end(unix.SIGTERM)
	if !s.hasRules() {
		t.Error("the agent has taken the rules with it")
	}
	s.filtering("report")
	s.start()
	s.await("there are no rules", func() bool { return !s.hasRules() })
	s.end(unix.SIGTERM)
	s.filtering("accept")
	s.start()
	s.await("there are rules again", s.hasRules)
	s.end(unix.SIGKILL)
	sandbox.Run(t, "rm", s.socket)
	s.leave(block)
	if s.hasRules() {
		t.Error("leave has left rules")
	}
}
