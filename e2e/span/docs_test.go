// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// TestDocuments runs the jobs of docs/cluster.md on its networks: what their services register are
// addresses that allocations of other jobs reach.
func TestDocuments(t *testing.T) {
	s := take(t)
	ledger, mirror := s.submitExample("spanning cni"), s.submitExample("spanning driver")
	from := s.awaitExample(ledger)[0]
	s.awaitExample(mirror)
	for service, subnet := range map[string]string{"ledger": "10.110.0.0/16", "ledger-repl": "10.111.0.0/16", "mirror-repl": "10.111.0.0/16"} {
		s.requireService(from, service, netip.MustParsePrefix(subnet))
	}
	s.requireStatus()
	must(t, lab.Jobs.Stop("ledger", "mirror"))
}

// requireStatus: the page's commands show its pools. Their exit code is 1 because the third client
// is not reached by other pools of this cluster, and there is no other reason.
func (s *scene) requireStatus() {
	s.Helper()
	text, err := cluster.Example("tested: spanning status", "sh")
	must(s, err)
	m := lab.Clients[2]
	for line := range strings.Lines(text) {
		must(s, cluster.Await("the pools are shown", func() error { return requirePools(m, line) }))
	}
	must(s, cluster.Await("the nodes reply", func() error { return requireReplies(m) }))
}

// requirePools is an error unless a command shows the page's pools. The agent knows a block of another host some seconds after that
// was claimed.
func requirePools(m *cluster.Machine, line string) error {
	out, err := m.Run(strings.Fields(line)...)
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		return errors.Join(fmt.Errorf("%s: want the exit code 1", line), err)
	}
	for _, want := range []string{"backend", "storage", "vx-storage"} {
		if !strings.Contains(out, want) {
			return fmt.Errorf("%s shows\n%swant %q", line, out, want)
		}
	}
	return nil
}

// requireReplies is an error unless each node replies to a client that their network has a way to.
func requireReplies(m *cluster.Machine) error {
	out, failed := m.Command("allocnet", "cluster", "ping", "--json", "--count", "2").Output()
	var results []struct {
		Pool, Node, Error string
		Received          int
	}
	if err := json.Unmarshal(out, &results); err != nil {
		return fmt.Errorf("%w, %w: %s", failed, err, out)
	}
	pools := map[string]int{}
	for _, r := range results {
		if pools[r.Pool]++; spans(r.Pool, m.Name) == (r.Received == 0) {
			return fmt.Errorf("%s: %+v", m.Name, r)
		}
	}
	if pools["backend"] != 2 || pools["storage"] != 2 {
		return fmt.Errorf("%s has asked %v, want two nodes of backend and storage each", m.Name, pools)
	}
	return nil
}

// install writes the networks of the page on all clients. That is done before the first test, because
// Nomad's client tells the servers of them 5 to 10 s later.
func install() error {
	for _, m := range lab.Clients {
		if err := errors.Join(writeNetworks(m), m.Signal(cluster.Nomad, unix.SIGHUP), m.Signal(cluster.Agent, unix.SIGHUP)); err != nil {
			return err
		}
	}
	return nil
}

// writeNetworks writes the networks of the page on a client.
func writeNetworks(m *cluster.Machine) error {
	text, err := cluster.Example("tested: spanning client", "sh")
	if err == nil {
		_, err = m.Run("bash", "-euxo", "pipefail", "-c", text)
	}
	return err
}

// submitExample submits a job of the page, with one allocation on each client, and returns its ID.
func (s *scene) submitExample(mark string) string {
	s.Helper()
	text, err := cluster.Example("tested: "+mark, "hcl")
	must(s, err)
	id, rest, _ := strings.Cut(strings.TrimPrefix(text, "job \""), "\"")
	spread := strings.Replace(rest, "count = 3\n", "count = 3\n"+job.Group, 1)
	must(s, lab.Jobs.SubmitText(id, "job \""+id+"\""+spread))
	return id
}

// awaitExample waits until the job's allocations run.
func (s *scene) awaitExample(id string) (found []peer) {
	s.Helper()
	list, err := lab.Jobs.AwaitRunning(id, 3)
	must(s, err)
	for _, a := range list {
		found = append(found, s.examine(a))
	}
	return found
}

// requireService: three instances with addresses of a subnet, which a peer reaches.
func (s *scene) requireService(from peer, name string, subnet netip.Prefix) {
	s.Helper()
	var instances []struct {
		Address string
		Port    int
	}
	must(s, cluster.Await(name+" is registered", func() error {
		err := lab.API(http.MethodGet, "service/"+name, nil, &instances)
		if err == nil && len(instances) != 3 {
			err = fmt.Errorf("registered are %v, want three", instances)
		}
		return err
	}))
	for _, i := range instances {
		if a, err := netip.ParseAddr(i.Address); err != nil || !subnet.Contains(a) || i.Port == 0 {
			s.Errorf("%s has the address %s and the port %d, want an address of %s", name, i.Address, i.Port, subnet)
			continue
		}
		// The jobs of the page do not listen: a reset comes from the address itself.
		if out, err := from.command("traffic", "refused", i.Address).CombinedOutput(); err != nil {
			s.Errorf("%s, %s: %v: %s", name, i.Address, err, out)
		}
	}
}
