// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package chaos

import (
	"encoding/json"
	"os"
	"os/exec"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// commandLine is an operation of the command line.
type commandLine struct {
	*host
	before      func(h *host) []string
	victim, fix []string
}

var (
	attach  = []string{"attach", "k1", "--primary", "web", "--networks", "storage,peer,vlan", "--publish", "8080:80/tcp"}
	extend  = []string{"attach", "k1", "--networks", "storage@data0,vlan@data1"}
	detach  = []string{"detach", "k1"}
	collect = []string{"gc"}
)

// nothing attaches no allocation: the operation sets up k1.
func nothing(*host) []string { return ids[:1] }

// stand attaches k1.
func stand(h *host) []string {
	h.Helper()
	h.must("attach", "k1", "--primary", "web", "--networks", "storage,peer", "--publish", "8080:80/tcp")
	return nil
}

// die attaches all allocations and removes their namespaces, and the record of one.
func die(h *host) []string {
	h.Helper()
	for i, id := range ids {
		h.must("attach", id, "--primary", "web", "--networks", "storage,peer", "--publish", []string{"8081:80", "8082:80", "8083:80"}[i])
	}
	for _, id := range ids {
		if err := netns.Remove(netns.DefaultDir + "/" + id); err != nil {
			h.Fatal(err)
		}
	}
	if err := os.RemoveAll(h.state + "/allocations/k2"); err != nil {
		h.Fatal(err)
	}
	return nil
}

func (c *commandLine) prepare() []string { return c.before(c.host) }

func (c *commandLine) start() run { return c.launch(c.command(c.victim...)) }

// launch starts a command, which the test kills.
func (h *host) launch(cmd *exec.Cmd) run {
	h.Helper()
	if err := cmd.Start(); err != nil {
		h.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // killed or not
		close(done)
	}()
	return run{cmd.Process, done}
}

// repair runs the command of the fix. gc leaves an allocation whose set-up was complete
// before the kill.
func (c *commandLine) repair() {
	c.Helper()
	c.must(c.fix...)
	if text := c.must("status", "--json"); c.requireWhole(text) > 0 {
		c.must(detach...)
	}
}

// requireWhole returns the number of allocations. It fails the test if an attachment is not
// in phase attached.
func (h *host) requireWhole(status string) int {
	h.Helper()
	var list []hook.Allocation
	if err := json.Unmarshal([]byte(status), &list); err != nil {
		h.Fatalf("%v in %s", err, status)
	}
	for _, a := range list {
		for _, n := range a.Attachments {
			if n.Phase != state.Attached {
				h.Errorf("%s of %s is %s: %s", n.Interface, a.ID, n.Phase, n.Error)
			}
		}
	}
	return len(list)
}
