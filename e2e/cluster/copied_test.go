// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// identity are the paths with what allocnet and the machine know of who they are.
var identity = []string{"/var/lib/allocnet", "/var/lib/cni", "/etc/machine-id"}

// TestLongCopied boots another machine with a copy of a client's disk: it gives out no address that the
// client has, and is refused. Both say so, and what to do.
func TestLongCopied(t *testing.T) {
	s := begin(t)
	original, c := s.replace()
	must(t, cluster.Await("the original has had its place for long enough to keep it", func() error { return inPlace(original) }))
	must(t, copyAll(original, c, identity...))
	must(t, lab.StartClient(c))
	_, err := c.Run("allocnet", "attach", "copy-1", "--primary", cluster.Flat) // of a new block, or refused
	t.Logf("on the copy: %v", err)
	must(t, cluster.Await("the copy is refused", func() error { return reports(c, "another host has this host's identity") }))
	must(t, cluster.Await("the original knows", func() error { return reports(original, "a copy of this machine has used the store") }))
	_, err = original.Run("allocnet", "attach", "original-1", "--primary", cluster.Flat)
	must(t, err)
	_, err = original.Run("allocnet", "detach", "original-1")
	must(t, err)
	s.repair(original, c)
}

// TestLongResumedTwice goes on with two machines of one client's disk and memory: within a minute both
// are refused, and say so.
func TestLongResumedTwice(t *testing.T) {
	s := begin(t)
	original, c := s.replace()
	must(t, lab.BootClient(c))
	must(t, original.Signal(cluster.Agent, unix.SIGSTOP))
	must(t, copyAll(original, c, append(identity, "/run/allocnet/ipam", "/run/boot_id")...))
	must(t, original.Signal(cluster.Agent, unix.SIGCONT))
	must(t, lab.StartNomad(c))
	must(t, c.StartAgent())
	for _, m := range []*cluster.Machine{original, c} {
		must(t, cluster.Await(m.Name+" is refused", func() error { return reports(m, "another host has this host's identity") }))
	}
	s.repair(original, c)
}

// replace ends a client without a trace, to be replaced by a copy of another one, on which
// allocations run.
func (s *scene) replace() (original, c *cluster.Machine) {
	s.Helper()
	original, c = lab.Clients[0], lab.Clients[1]
	s.start(cluster.Job{ID: s.name("running"), Network: cluster.Flat, Count: 3, Group: on(original)})
	old, err := lab.Nodes(c)
	must(s, err)
	c.Off()
	for _, node := range old {
		_, err := original.Run("allocnet", "ipam", "release", "--node", node.ID, "--force", "--yes")
		must(s, err)
	}
	must(s, c.Wipe("/"))
	return original, c
}

// inPlace is an error unless a machine registered in the store more than 40 s ago.
func inPlace(m *cluster.Machine) error {
	data, err := os.ReadFile(m.Path("/run/allocnet/ipam/node.json"))
	if err != nil {
		return err
	}
	var node struct{ Registered struct{ Time time.Time } }
	if err := json.Unmarshal(data, &node); err != nil {
		return err
	}
	if since := node.Registered.Time; since.IsZero() || time.Since(since) < 45*time.Second {
		return fmt.Errorf("it is registered since %s", since)
	}
	return nil
}

// copyAll copies files and directories of a machine to another one.
func copyAll(from, to *cluster.Machine, paths ...string) error {
	for _, path := range paths {
		if err := os.MkdirAll(filepath.Dir(to.Path(path)), 0o700); err != nil { // as the agent wants that of its socket
			return err
		}
		data, err := os.ReadFile(from.Path(path))
		if errors.Is(err, unix.EISDIR) {
			err = os.CopyFS(to.Path(path), os.DirFS(from.Path(path)))
		} else if err == nil {
			err = os.WriteFile(to.Path(path), data, 0o444)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reports is an error unless all ways to ask a client say that there are two of it.
func reports(m *cluster.Machine, text string) error {
	ready, _ := m.Run("curl", "--silent", "--unix-socket", "/run/allocnet/agent.sock", "http://agent/readyz")
	metrics, _ := m.Run("curl", "--silent", "--unix-socket", "/run/allocnet/agent.sock", "http://agent/metrics")
	doctor, _ := m.Run("allocnet", "doctor") // it has errors
	check, _ := m.Run("allocnet", "ipam", "check")
	events, err := m.Run("allocnet", "events")
	if err != nil {
		return err
	}
	if want := "pool " + cluster.Flat; !strings.Contains(events, "pool problem") || !strings.Contains(events, want) {
		return fmt.Errorf("no event of %s: %s", want, events)
	}
	for where, output := range map[string]string{"/readyz": ready, "doctor": doctor, "ipam check": check} {
		if !strings.Contains(output, text) {
			return fmt.Errorf("%s says %s", where, output)
		}
	}
	if want := `allocnet_ipam_problems{pool="` + cluster.Flat + `",problem="twin"} 1`; !strings.Contains(metrics, want) {
		return fmt.Errorf("no %s in the metrics", want)
	}
	if !strings.Contains(check, "on the copy: stop all allocations") {
		return fmt.Errorf("ipam check does not say what to do: %s", check)
	}
	return nil
}

// repair is what docs/cluster.md says: the copy gets a disk of its own, and what it has claimed is
// deleted, as is the variable that a refused machine names.
func (s *scene) repair(original, c *cluster.Machine) {
	s.Helper()
	c.Off()
	must(s, c.Wipe("/"))
	check, _ := original.Run("allocnet", "ipam", "check") // it has errors
	for _, path := range regexp.MustCompile(`allocnet/ipam/1/(?:nodes/[0-9a-f]+|\w+/[ab]/[-0-9a-f]+)`).FindAllString(check, -1) {
		_, err := lab.CLI("var", "purge", "-namespace", "allocnet-ipam", path)
		must(s, err)
	}
	must(s, original.Signal(cluster.Agent, unix.SIGKILL))
	s.powerCycle(original) // it reports the copy until it boots
	must(s, lab.StartClient(c))
	must(s, lab.AwaitReady())
}
