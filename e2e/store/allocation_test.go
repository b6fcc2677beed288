// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/allocnet/allocnet/cluster/connect"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/sandbox"
)

const job = `
job "sleeper" {
  type = "batch"
  group "g" {
    count = 2
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["100000"]
      }
      resources {
        cpu    = 20
        memory = 20
      }
    }
  }
}
`

// connection returns the connection of a configuration with a token, and its state directory.
func (s *server) connection(tokenFile string) (*connect.Connection, string) {
	s.Helper()
	config, state := s.TempDir(), s.TempDir()
	sandbox.WriteFile(s, filepath.Join(config, "allocnet.hcl"), fmt.Sprintf("ipam {}\nnomad {\n address = %q\n token_file = %q\n}\n", s.address, tokenFile))
	return connect.New(config, state), state
}

// allocations: who this node is, and what is known of allocations and nodes.
func (s *server) allocations(ipam.Store) {
	s.policy("questions", `namespace "*" { capabilities = ["read-job"] } node { policy = "read" } agent { policy = "read" }`)
	token, _ := s.token("pools", "questions")
	c, _ := s.connection(token)
	_, host, err := c.Open()
	if s.want("open", err, nil); host.NodeName != "n1" || len(host.NodeID) != 36 {
		s.Fatalf("host %+v, want the node n1", host)
	}
	s.requireGone(c, host.NodeID, false)
	s.requireGone(c, "0b2e7b1c-94c2-4c2a-8a0e-5a4e1d0c9f01", true)

	s.Submit("sleeper", job)
	indexes := map[int]bool{}
	running := s.AwaitRunning("sleeper", 2)
	for _, a := range running {
		index, err := c.Index(s.Context(), "default", a.ID)
		if err != nil {
			s.Fatal(err)
		}
		indexes[index] = true
		since, err := c.Ended(s.Context(), "default", a.ID)
		if s.want("ended", err, nil); !since.IsZero() {
			s.Errorf("a running allocation has ended at %s", since)
		}
	}
	if !indexes[0] || !indexes[1] {
		s.Errorf("indexes %v, want 0 and 1", indexes)
	}
	none, _ := s.token("nothing")
	limited, _ := s.connection(none)
	_, err = limited.Ended(s.Context(), "default", running[0].ID)
	s.want("without rights: ended", err, ipam.ErrRefused, "read-job")
	_, _, err = limited.Open()
	s.want("without rights: open", err, ipam.ErrRefused, `agent { policy = "read" }`)

	stopped := time.Now()
	s.Nomad("job", "stop", "-detach", "sleeper")
	for _, a := range running {
		s.Await("an allocation has ended", func() bool {
			since, err := c.Ended(s.Context(), "default", a.ID)
			if err != nil {
				s.Fatal(err)
			}
			return since.After(stopped)
		})
	}
}

func (s *server) requireGone(c *connect.Connection, node string, want bool) {
	s.Helper()
	if gone, err := c.Gone(s.Context(), node); err != nil || gone != want {
		s.Errorf("node %s is gone: %t, %v, want %t", node, gone, err, want)
	}
}
