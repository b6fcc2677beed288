// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// apart is a network that spans hosts, whose level is strict in the tests of this file.
const apart = "apart"

// apartPlugin is its plugin.
const apartPlugin = `{"type": "bridge", "bridge": "br-apart", "isGateway": true, "mtu": 1450, "ipMasq": true, "ipam": {"type": "allocnet-ipam", "pool": "apart",
	"mode": "auto", "ranges": [{"subnet": "10.101.0.0/16"}, {"subnet": "fd9a::/64"}], "blockSize": {"4": 28, "6": 124}, "cooldown": "5s"}}`

// apartRules are the same on all hosts, which have one directory /etc/allocnet here.
const apartRules = `allow "web reaches db" {
  from {
    job       = "web"
    namespace = "default"
  }
  to {
    job       = "db"
    namespace = "default"
  }
}
`

const (
	apartFile = "/opt/cni/config/50-" + apart + ".conflist"
	rulesFile = "/etc/allocnet/isolation.hcl"
	// allocDir is that of the clients.
	allocDir = "/var/lib/nomad/alloc"
)

// isolate has the network apart isolated on all clients until the test ends. The last client attaches in process, too, as isolation wants.
func (s *scene) isolate() {
	s.Helper()
	for _, m := range lab.Clients {
		before := s.run(m, "cat "+apartFile)
		generated := "/opt/cni/config/50-job-" + apart + ".conflist"
		s.Cleanup(func() {
			must(s, errors.Join(m.Write(apartFile, before), m.Signal(cluster.Agent, unix.SIGHUP)))
			s.run(m, "rm -f "+rulesFile)
		})
		must(s, m.Write(apartFile, strings.Replace(before, `"plugins"`, `"allocnet": {"isolation": "strict"}, "plugins"`, 1)))
		s.run(m, "mkdir -p /etc/allocnet; cat >/etc/allocnet/rules.new <<'END'\n"+apartRules+"END\nmv /etc/allocnet/rules.new "+rulesFile)
		s.run(m, "rm -f /opt/cni/config/*job-"+apart+".conflist; allocnet conf generate "+apart+" --name job-"+apart+" --alloc-dir "+allocDir+" --job-networks; ls "+strings.ReplaceAll(generated, "50-", "*"))
		must(s, m.Signal(cluster.Agent, unix.SIGHUP))
	}
}

// runOn runs a job with an allocation on each of some clients, and returns them.
func (s *scene) runOn(id string, clients ...*cluster.Machine) (found []peer) {
	s.Helper()
	var names []string
	for _, m := range clients {
		names = append(names, m.Name)
	}
	must(s, lab.Jobs.Submit(cluster.Job{
		ID: id, Network: apart, Count: len(clients), Command: []string{"traffic", "serve"},
		Group: fmt.Sprintf("constraint {\n attribute = \"${node.unique.name}\"\n operator = \"regexp\"\n value = \"^(%s)$\"\n}\nconstraint {\n distinct_hosts = true\n}", strings.Join(names, "|")),
	}))
	var list []cluster.Allocation
	must(s, cluster.Await("the job "+id+" runs on "+strings.Join(names, " "), func() (err error) {
		if list, err = lab.Jobs.Running(id, len(clients)); err != nil {
			return err
		}
		for _, a := range list {
			if !strings.Contains(strings.Join(names, " "), a.NodeName) {
				return fmt.Errorf("it runs on %s", cluster.Explain(list))
			}
		}
		return nil
	}))
	for _, a := range list {
		found = append(found, s.examine(a))
	}
	return found
}

// connects is an error unless a peer connects to an address.
func (p peer) connects(to netip.Addr) error {
	if out, err := p.command("timeout", "1", "bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/%s/%d", to, echoPort)).CombinedOutput(); err != nil {
		return fmt.Errorf("%s on %s does not connect to %s: %w: %s", p.ID, p.machine.Name, to, err, out)
	}
	return nil
}

// echoPort is that of the program traffic.
const echoPort = 7

// requireApart waits until some reach others, by IPv4 and IPv6, and requires that the rest does not.
func (s *scene) requireApart(when string, to peer, reach, rest []peer) {
	s.Helper()
	begun := time.Now()
	for _, address := range to.addresses[apart] {
		for _, p := range reach {
			must(s, cluster.Await(when+": "+p.ID+" reaches "+address.String(), func() error { return p.connects(address) }))
		}
	}
	s.Logf("%s: what is allowed was reached after %s", when, time.Since(begun).Round(100*time.Millisecond))
	for _, address := range to.addresses[apart] {
		for _, p := range rest {
			if err := p.connects(address); err == nil {
				s.Errorf("%s: %s on %s reaches %s", when, p.ID, p.machine.Name, address)
			}
		}
	}
}

// requireName waits until the file of an allocation has the name of one on another node, with all of its addresses.
func (s *scene) requireName(of, other peer, name string) {
	s.Helper()
	for _, address := range other.addresses[apart] {
		line := address.String() + " " + name
		must(s, cluster.Await(of.ID+" knows "+line, func() error {
			_, err := of.machine.Run("grep", "-qxF", line, allocDir+"/"+of.ID+"/alloc/network.hosts")
			return err
		}))
	}
}

// TestApart: the allocations of one job reach those of another one on another node, as a rule has it, and those of others do not: also while no server
// answers, without agents, and after the kernel's tables were removed meanwhile. When an allocation moves, the others follow, and forget where it was.
func TestApart(t *testing.T) {
	s := take(t)
	c1, c2, c3 := lab.Clients[0], lab.Clients[1], lab.Clients[2]
	s.isolate()
	t.Cleanup(func() { must(t, lab.Jobs.Stop("db", "web", "other")) })
	db := s.runOn("db", c1)[0]
	webs, others := s.runOn("web", c2, c3), s.runOn("other", c2, c3)
	if len(db.addresses[apart]) != 2 {
		t.Fatalf("db has the addresses %v, want two", db.addresses)
	}
	s.requireApart("all run", db, webs, others)
	s.requireName(webs[0], db, "db-0."+apart)
	for _, m := range lab.Servers {
		must(t, m.Signal(cluster.Nomad, unix.SIGKILL))
	}
	s.requireApart("no server runs", db, webs, others)
	for _, m := range lab.Clients {
		must(t, m.Signal(cluster.Agent, unix.SIGKILL))
	}
	s.requireApart("no agent runs", db, webs, others)
	for _, m := range lab.Clients {
		s.run(m, "nft delete table inet allocnet-isolation; nft delete table bridge allocnet-isolation; allocnet repair")
	}
	s.requireApart("the tables are made again without server and agent", db, webs, others)
	for _, m := range lab.Clients {
		must(t, m.StartAgent())
	}
	s.requireApart("agents are started while no server answers", db, webs, others)
	for _, m := range lab.Servers {
		must(t, lab.RestartServer(m))
	}
	must(t, lab.AwaitReady())
	old := db
	db = s.runOn("db", c3)[0]
	s.requireApart("db has moved", db, webs, others)
	for _, m := range []*cluster.Machine{c2, c3} {
		must(t, cluster.Await(m.Name+" forgets where db was", func() error {
			for _, address := range old.addresses[apart] {
				if text := s.run(m, "nft list ruleset"); strings.Contains(text, `"@`+address.String()+`"`) {
					return fmt.Errorf("%s is known", address)
				}
			}
			return nil
		}))
	}
	decided := s.run(c2, fmt.Sprintf("allocnet policy test %s %s:%d; allocnet policy test %s %s:%d || test $? = 4", on(webs, c2).ID, db.addresses[apart][0], echoPort, on(others, c2).ID, db.addresses[apart][0], echoPort))
	if !strings.Contains(decided, "job db of default on "+c3.Name) || !strings.Contains(decided, "denied") {
		t.Errorf("policy test says %s", decided)
	}
}
