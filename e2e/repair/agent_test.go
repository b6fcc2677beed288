// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/client"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// startAgent starts an agent of the host, which ends with the test, and returns when its first round is
// complete.
func (h *host) startAgent() {
	h.Helper()
	socket, conf := filepath.Join(h.dir, "agent", "agent.sock"), filepath.Join(h.dir, "agent.hcl")
	sandbox.WriteFile(h, conf, `conf_dir = "`+h.conf()+`"
plugin_dirs = ["`+sandbox.PluginDir()+`"]
state_dir = "`+h.state()+`"
socket {
  path = "`+socket+`"
}
`)
	cmd := exec.Command(binary, "agent", "--config", conf)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() {
		if err := errors.Join(cmd.Process.Signal(unix.SIGTERM), cmd.Wait()); err != nil {
			h.Errorf("agent: %v", err)
		}
	})
	var err error
	sandbox.Eventually(h, "the agent is ready", func() bool {
		err = client.New(socket).Ready(context.Background())
		return err == nil
	}, func() string { return err.Error() })
}

// attempt is a way that new connections take.
type attempt struct{ from, to string }

// isOpen tells whether a new connection can be made.
func (h *host) isOpen(a attempt) bool {
	open := false
	h.within(a.from, func() error {
		conn, err := net.DialTimeout("tcp", a.to, 200*time.Millisecond)
		if err == nil {
			open = true
			return conn.Close()
		}
		return nil
	})
	return open
}

// TestAgentRepairs damages a host in the ways of its operators, and the agent repairs it: new
// connections in both directions can be made again, and established ones survive.
func TestAgentRepairs(t *testing.T) {
	h := newHost(t, hook.ExecutorAuto, "iptables")
	a := h.attach("one", 8080, further...)
	t.Cleanup(func() { h.detach("one") })
	variables := h.variables(a)
	published := h.connect("to the published port", outside, a.Netns, ":80", hostAddress+":8080")
	out := h.connect("to the outside", a.Netns, outside, ":443", peerAddress+":443")
	attempts := []attempt{{outside, hostAddress + ":8080"}, {a.Netns, peerAddress + ":443"}}
	before := h.picture("one")
	var took []time.Duration
	for _, d := range damages {
		if !slices.Contains(told, d.name) {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			h := &host{TB: t, engine: h.engine, dir: h.dir}
			h.startAgent() // another one would pause between many repairs
			shell(t, variables+d.command)
			began := time.Now()
			sandbox.Eventually(t, "new connections can be made", func() bool {
				return !slices.ContainsFunc(attempts, func(a attempt) bool { return !h.isOpen(a) })
			})
			took = append(took, time.Since(began))
			diff := "" // what these connections do not need may take a little longer
			sandbox.Eventually(t, "the host is as it was", func() bool {
				diff = difference(before, h.picture("one"))
				return diff == ""
			}, func() string { return diff })
			h.requireAlive(published)
			h.requireAlive(out)
		})
	}
	slices.Sort(took)
	t.Logf("new connections after: median %s, longest %s", took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
}

// told are the damages of which the kernel tells.
var told = []string{
	"nft flush ruleset", "iptables -F", "iptables -t nat -F", "bridge deleted", "port removed", "gateway address removed",
	"default route deleted inside", "interfaces down inside", "addresses deleted inside", "rules of source routing deleted",
}
