// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/cluster/hostid"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
	"github.com/allocnet/allocnet/internal/sandbox"
)

const (
	otherNode    = "0b2e7b1c-94c2-4c2a-8a0e-5a4e1d0c9f02"
	otherAddress = "10.99.0.2"
)

// spanning is a host with a pool whose network spans hosts, and another host in the store.
type spanning struct {
	*host
	store *variables
	dir   string
	// address is the one that Nomad has of the other node.
	address atomic.Value
}

func newSpanning(t *testing.T) *spanning {
	t.Helper()
	sandbox.Run(t, "ip", "link", "add", "under0", "type", "veth", "peer", "name", "under1")
	sandbox.Run(t, "ip", "link", "set", "under1", "up")
	t.Cleanup(func() { sandbox.Run(t, "ip", "link", "delete", "under0") })
	sandbox.Run(t, "ip", "address", "add", "10.99.0.1/24", "dev", "under0")
	sandbox.Run(t, "ip", "link", "set", "under0", "up")
	s := &spanning{host: newHost(t), store: &variables{}, dir: t.TempDir()}
	t.Cleanup(func() { _ = os.RemoveAll(s.state + "/ipam") }) // the identity of the host
	s.address.Store("10.99.0.9")
	mux := http.NewServeMux()
	mux.Handle("/", s.store)
	mux.HandleFunc("/v1/node/"+otherNode, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"ID": %q, "Name": "c2", "Attributes": {"unique.network.ip-address": %q}}`, otherNode, s.address.Load())
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	if err := os.Mkdir(s.dir+"/conf", 0o700); err != nil {
		t.Fatal(err)
	}
	sandbox.WriteFile(t, s.dir+"/conf/agent.hcl", fmt.Sprintf("ipam {}\nnomad {\n  address = %q\n  node_id = \"0b2e7b1c-94c2-4c2a-8a0e-5a4e1d0c9f01\"\n}\n", server.URL))
	s.configure("ipam {}\ncluster {\n  address = \"10.99.0.1\"\n}\n")
	sandbox.WriteFile(t, s.conf+"/60-spanned.conflist", fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "spanned", "plugins": [{"type": "ptp", "ipam": %s}]}`, s.ipam(s.dir)))
	return s
}

// ipam is the configuration of the pool with its directories.
func (s *spanning) ipam(dir string) string {
	return fmt.Sprintf(`{"type": "allocnet-ipam", "pool": "web", "mode": "auto", "cooldown": "0s", "ranges": [{"subnet": "10.98.0.0/24", "gateway": "10.98.0.1"}],
		"blockSize": {"4": 28}, "stateDir": %[1]q, "dataDir": "%[1]s/leases", "configDir": "%[1]s/conf"}`, dir)
}

// other lets another host claim a block.
func (s *spanning) other() ipam.Block {
	s.Helper()
	dir := s.TempDir()
	c, err := ipam.Parse([]byte(s.ipam(dir)))
	if err != nil {
		s.Fatal(err)
	}
	if err := os.Mkdir(dir+"/ipam", 0o700); err != nil {
		s.Fatal(err)
	}
	sandbox.WriteFile(s.T, filepath.Join(dir, "ipam", "instance"), strings.Repeat("b", 32)+"\n")
	id := must[hostid.Identity](s.host)(hostid.Read(dir + "/ipam"))
	id.NodeID = otherNode
	p := pool.New(pool.Options{Config: c, Open: func() (ipam.Store, ipam.Host, error) { return &s.store.Fake, id.Host, nil }})
	if err := p.SetEndpoint(ctx, ipam.Endpoint{Address: netip.MustParseAddr(otherAddress), MAC: "02:00:5e:00:53:02"}); err != nil {
		s.Fatal(err)
	}
	if _, err := p.Add(ctx, ipam.Request{Owner: ipam.Owner{ContainerID: "other", Interface: "eth0"}}); err != nil {
		s.Fatal(err)
	}
	usage, err := p.Usage(ctx)
	if err != nil || len(usage.Blocks) != 1 {
		s.Fatal(usage, err)
	}
	return usage.Blocks[0].Block
}

// route is that of the status to the other host's block.
func (s *spanning) route() api.ClusterRoute {
	status, err := s.client.Cluster(ctx)
	if err != nil || len(status.Pools) != 1 || len(status.Pools[0].Nodes) != 1 {
		return api.ClusterRoute{}
	}
	return status.Pools[0].Nodes[0].Routes[0]
}

func (s *spanning) kernel() string {
	return sandbox.Run(s.T, "ip", "-4", "route", "show", "proto", "172")
}

// TestLongCluster: a block of another host gets a route when Nomad confirms its node's address; the route
// outlives the agent; and leave removes all, but not while the agent runs or something is
// attached.
func TestLongCluster(t *testing.T) {
	s := newSpanning(t)
	block := s.other()
	s.start()
	s.await("an address that Nomad does not have is refused", func() bool { return s.route().State == "refused" })
	if routes := s.kernel(); strings.Contains(routes, block.String()) {
		t.Errorf("there are\n%s", routes)
	}
	s.address.Store(otherAddress)
	s.await("the block is routed", func() bool { return s.route().State == "installed" })
	want := block.String() + " via " + otherAddress + " dev under0"
	if routes := s.kernel(); !strings.Contains(routes, want) {
		t.Errorf("no %q in\n%s", want, routes)
	}
	s.await("the host does not reply to a probe", func() bool {
		return s.metric(`allocnet_cluster_nodes{pool="web",state="unreachable"}`) == 1
	})
	if out, code := s.allocnet("cluster", "status"); code != 1 || !strings.Contains(out, "node c2 does not reply at "+otherAddress) || !strings.Contains(out, "c2    "+otherAddress) || !strings.Contains(out, "installed") {
		t.Errorf("status, of a host that does not reply: exit code %d\n%s", code, out)
	}
	if n := s.metric(`allocnet_cluster_routes{pool="web",state="installed"}`); n != 1 {
		t.Errorf("%v routes in the metrics", n)
	}
	s.requireRefusal("stop the agent first")
	must[*api.Allocation](s.host)(s.client.Setup(ctx, "spanned-1", api.Setup{Primary: api.Selection{{Name: "spanned"}}}))
	s.end(unix.SIGTERM)
	if routes := s.kernel(); !strings.Contains(routes, want) {
		t.Errorf("the agent has taken routes with it:\n%s", routes)
	}
	s.requireRefusal("allocation spanned-1, eth0, pool web")
	if out, code := s.allocnet("detach", "spanned-1"); code != 0 {
		t.Errorf("detach: exit code %d\n%s", code, out)
	}
	s.leave(block)
}

func (s *spanning) requireRefusal(want string) {
	s.Helper()
	if out, code := s.allocnet("cluster", "leave", "--yes"); code != 2 || !strings.Contains(out, want) {
		s.Errorf("leave: exit code %d, want 2 and %q\n%s", code, want, out)
	}
}

// leave requires that only the other host's block is left. The snapshot says so of the host.
func (s *spanning) leave(other ipam.Block) {
	s.Helper()
	path := s.dir + "/run/ipam/node.json" // as of a host that has its identity for longer
	aged := regexp.MustCompile(`"uptime":\s*`).ReplaceAllString(read(s.T, path), `"uptime":-`)
	if err := os.WriteFile(path, []byte(aged), 0o600); err != nil {
		s.Fatal(err)
	}
	for range 2 { // it can be repeated
		if out, code := s.allocnet("cluster", "leave", "--yes"); code != 0 || !strings.Contains(out, "removed the routes and devices\n") {
			s.Errorf("leave: exit code %d\n%s", code, out)
		}
	}
	if routes := s.kernel(); routes != "" {
		s.Errorf("routes are left:\n%s", routes)
	}
	listing, err := s.store.List(ctx, ipam.BlocksPrefix("web"), 0)
	if err != nil || len(listing.Entries) != 1 || listing.Entries[0].Path != ipam.BlockPath("web", other) {
		s.Errorf("the store has %v, %v", listing.Entries, err)
	}
}
