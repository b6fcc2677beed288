// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// TestDocuments installs a client as docs/cluster.md says, and runs its jobs.
func TestDocuments(t *testing.T) {
	s := begin(t)
	w := watch(t, "10.100.0.0/26")
	m := lab.Clients[2]
	s.install(m)
	for mark, count := range map[string]int{"job": 3, "sticky": 1, "requested": 1} {
		s.runExample(mark, count)
	}
	if _, err := m.Run("allocnet", "ipam", "show", "vlan100"); err != nil {
		t.Error(err)
	}
	s.stopAll()
	for _, line := range w.Duplicates() {
		t.Error(line)
	}
	must(t, m.Wipe("/opt/cni/config/30-vlan100.conflist", "/opt/cni/config/00-multi.conflist"))
	must(t, lab.Install(m))
	s.powerCycle(m)
}

// install runs the commands of the page: those of the operator with the management token.
func (s *scene) install(m *cluster.Machine) {
	s.Helper()
	rules, err := cluster.Policy()
	must(s, err)
	must(s, m.Write("/run/page/allocnet.policy.hcl", rules))
	must(s, os.MkdirAll(m.Path("/run/page/build/bin"), 0o755))
	_, err = m.Run("cp", "/mnt/cluster/bin/allocnet-ipam", "/run/page/build/bin/")
	must(s, err)
	s.example(m, "tested: operator")
	s.example(m, "tested: client")
	must(s, m.Signal(cluster.Nomad, unix.SIGTERM))
	must(s, lab.StartNomad(m))
	must(s, m.Signal(cluster.Agent, unix.SIGTERM))
	must(s, m.StartAgent())
}

func (s *scene) example(m *cluster.Machine, mark string) {
	s.Helper()
	text, err := cluster.Example(mark, "sh")
	must(s, err)
	text = strings.ReplaceAll(text, "bond0.100", "vlan")
	cmd := m.Command("bash", "-euxo", "pipefail", "-c", "cd /run/page\n"+text)
	cmd.Env = append(cmd.Env, "NOMAD_TOKEN="+lab.Token)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("%s: %v\n%s", mark, err, out)
	}
}

// runExample runs a job of the page, and requires addresses of its pool.
func (s *scene) runExample(mark string, count int) {
	s.Helper()
	text, err := cluster.Example("tested: "+mark, "hcl")
	must(s, err)
	id, _, _ := strings.Cut(strings.TrimPrefix(text, "job \""), "\"")
	must(s, lab.SubmitText(id, text))
	found, err := lab.AwaitRunning(id, count)
	must(s, errors.Join(err, distinct(found)))
	for _, a := range found {
		if !netip.MustParsePrefix("10.100.0.32/27").Contains(a.Address()) {
			s.Errorf("%s has the address %s", a.Name, a.Address())
		}
	}
}
