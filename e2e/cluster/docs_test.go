// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/cluster"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
	"github.com/allocnet/allocnet/nomad"
)

// TestDocuments installs a client as docs/cluster.md says, and runs its jobs.
func TestDocuments(t *testing.T) {
	s := begin(t)
	w := s.watch("10.100.0.0/26")
	m := lab.Clients[2]
	s.install(m)
	for mark, count := range map[string]int{"job": 3, "sticky": 1, "requested": 1} {
		s.runExample(mark, count)
	}
	for _, mark := range []string{"sticky argument", "requested argument"} {
		s.runArgumentExample(mark)
	}
	shown(t, m, "vlan100")
	s.stopAll()
	for _, line := range w.Duplicates() {
		t.Error(line)
	}
	must(t, m.Wipe("/opt/cni/config"))
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
	web, err := os.ReadFile(sandbox.Root() + "/dist/conf/10-web.conflist")
	must(s, err)
	must(s, m.Write("/opt/cni/config/10-web.conflist", string(web)))
	_, err = m.Run("allocnet", "conf", "generate", "web", "--name", "apps", "--job-networks", "--alloc-dir", "none")
	must(s, err)
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
	id, text := s.job(mark)
	must(s, lab.Jobs.SubmitText(id, text))
	found, err := lab.Jobs.AwaitRunning(id, count)
	must(s, err)
	owners := map[netip.Addr]string{}
	for _, a := range found {
		address := s.addressOn(a, "vlan100")
		if !netip.MustParsePrefix("10.100.0.32/27").Contains(address) || owners[address] != "" {
			s.Errorf("%s has the address %s, as has %q", a.Name, address, owners[address])
		}
		owners[address] = a.Name
	}
}

// runArgumentExample is runExample for a job with CNI arguments, which older versions of Nomad refuse.
func (s *scene) runArgumentExample(mark string) {
	s.Helper()
	has, err := nomadagent.BinaryHas(nomad.JobArguments)
	must(s, err)
	if has {
		s.runExample(mark, 1)
		return
	}
	_, text := s.job(mark)
	err = lab.API(http.MethodPost, "jobs/parse", map[string]any{"JobHCL": text}, nil)
	if err == nil || !strings.Contains(err.Error(), "Unsupported block type") {
		s.Errorf("%s: error %v, want the block cni refused", mark, err)
	}
}

// job returns a job of the page with its ID.
func (s *scene) job(mark string) (id, text string) {
	s.Helper()
	text, err := cluster.Example("tested: "+mark, "hcl")
	must(s, err)
	id, _, _ = strings.Cut(strings.TrimPrefix(text, "job \""), "\"")
	return id, text
}

// addressOn is the IPv4 address of an allocation on a network.
func (s *scene) addressOn(a cluster.Allocation, network string) netip.Addr {
	s.Helper()
	i := slices.IndexFunc(lab.Clients, func(m *cluster.Machine) bool { return m.Name == a.NodeName })
	out, err := lab.Clients[i].Run("allocnet", "status", "--json", a.ID)
	must(s, err)
	var known hook.Allocation
	must(s, json.Unmarshal([]byte(out), &known))
	for _, attachment := range known.Attachments {
		if attachment.Network == network && len(attachment.Addresses) == 1 {
			return attachment.Addresses[0].Addr()
		}
	}
	s.Fatalf("%s has no address on %s: %s", a.Name, network, out)
	return netip.Addr{}
}
