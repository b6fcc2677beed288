// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// TestLongStateRestored takes a block from a client, and restores the client's state directory of before:
// that the block is lost is reported, and no address of it is given out, without the agent and with it.
func TestLongStateRestored(t *testing.T) {
	s := begin(t)
	m := lab.Clients[0]
	address := s.attachToNewBlock(m)
	block, _ := address.Prefix(28)
	backup := t.TempDir()
	must(t, os.CopyFS(backup, os.DirFS(m.Path("/var/lib/allocnet"))))
	path := ipam.BlockPath(cluster.Flat, block)
	s.takeAway(path)
	must(t, cluster.Await("the lost block is reported", func() error { return reportsLost(m, block) }))
	must(t, m.Signal(cluster.Agent, unix.SIGKILL))
	must(t, m.Wipe("/var/lib/allocnet"))
	must(t, os.CopyFS(m.Path("/var/lib/allocnet"), os.DirFS(backup)))
	s.requireOther(m, "restored", block)
	must(t, m.StartAgent())
	s.requireOther(m, "restored-agent", block)
	_, err := lab.CLI("var", "purge", "-namespace", "allocnet-ipam", path) // the client makes it again
	must(t, err)
	attached, err := filepath.Glob(m.Path("/run/netns/*"))
	must(t, err)
	for _, namespace := range attached {
		_, err := m.Run("allocnet", "detach", filepath.Base(namespace))
		must(t, err)
	}
}

// takeAway makes a block that of a host that is not there.
func (s *scene) takeAway(path string) {
	s.Helper()
	path = "var/" + path + "?namespace=allocnet-ipam"
	var variable struct{ Items map[string]string }
	must(s, lab.API(http.MethodGet, path, nil, &variable))
	for item, text := range variable.Items {
		var entry struct{ Content ipam.BlockContent }
		must(s, json.Unmarshal([]byte(text), &entry))
		entry.Content.Host = ipam.Host{
			Instance: strings.Repeat("f", 32), NodeID: "00000000-0000-0000-0000-000000000000",
			NodeName: "elsewhere", MachineID: strings.Repeat("e", 32), Boot: strings.Repeat("d", 32),
		}
		variable.Items[item] = string(ipam.Encode(entry.Content))
	}
	must(s, lab.API(http.MethodPut, path, variable, nil))
}

// reportsLost is an error unless all ways to ask a client say that a block is another's.
func reportsLost(m *cluster.Machine, block netip.Prefix) error {
	metrics, err := m.Run("curl", "--silent", "--unix-socket", "/run/allocnet/agent.sock", "http://agent/metrics")
	doctor, _ := m.Run("allocnet", "doctor")       // it has errors
	check, _ := m.Run("allocnet", "ipam", "check") // it has, too
	events, errEvents := m.Run("allocnet", "events")
	for where, output := range map[string]string{"doctor": doctor, "ipam check": check, "events": events} {
		if !strings.Contains(output, block.String()) {
			return fmt.Errorf("%s says %s", where, output)
		}
	}
	if want := `allocnet_ipam_problems{pool="` + cluster.Flat + `",problem="lost"} 1`; !strings.Contains(metrics, want) {
		return fmt.Errorf("no %s in the metrics", want)
	}
	if !strings.Contains(events, "pool problem") {
		return fmt.Errorf("no event: %s", events)
	}
	return errors.Join(err, errEvents)
}

// requireOther attaches a namespace, which gets no address of a block.
func (s *scene) requireOther(m *cluster.Machine, id string, block netip.Prefix) {
	s.Helper()
	if a := s.attach(m, id); block.Contains(a) {
		s.Errorf("%s has %s, of the block %s that is another's", id, a, block)
	}
}
