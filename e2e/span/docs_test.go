// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// TestDocuments installs the networks of docs/cluster.md, and runs its jobs: what their
// services register are addresses that allocations of other jobs reach.
func TestDocuments(t *testing.T) {
	for _, m := range lab.Clients {
		page(t, m, "spanning client")
		must(t, m.Signal(cluster.Nomad, unix.SIGHUP))
		must(t, m.Signal(cluster.Agent, unix.SIGHUP))
	}
	from := runExample(t, "spanning cni")[0]
	runExample(t, "spanning driver")
	for service, subnet := range map[string]string{"ledger": "10.110.0.0/16", "ledger-repl": "10.111.0.0/16", "mirror-repl": "10.111.0.0/16"} {
		requireService(t, from, service, netip.MustParsePrefix(subnet))
	}
	requireStatus(t)
	must(t, lab.Stop("ledger", "mirror"))
}

// requireStatus: the page's commands show its pools. They fail because the third client is not
// reached by other pools of this cluster.
func requireStatus(t *testing.T) {
	t.Helper()
	text, err := cluster.Example("tested: spanning status", "sh")
	must(t, err)
	out, _ := lab.Clients[2].Run("sh", "-c", text) // it is for the reader
	for _, want := range []string{"pool backend, mode auto", "pool storage, mode vxlan", "vx-storage"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s shows\n%swant %q", text, out, want)
		}
	}
}

// page runs the commands of the page that follow a mark.
func page(t *testing.T, m *cluster.Machine, mark string) {
	t.Helper()
	text, err := cluster.Example("tested: "+mark, "sh")
	must(t, err)
	out, err := m.Run("bash", "-euxo", "pipefail", "-c", text)
	must(t, err)
	t.Logf("%s: %s", m.Name, out)
}

// runExample runs a job of the page, with one allocation on each client.
func runExample(t *testing.T, mark string) (found []peer) {
	t.Helper()
	text, err := cluster.Example("tested: "+mark, "hcl")
	must(t, err)
	id, rest, _ := strings.Cut(strings.TrimPrefix(text, "job \""), "\"")
	spread := strings.Replace(rest, "count = 3\n", "count = 3\n"+job.Group, 1)
	must(t, lab.SubmitText(id, "job \""+id+"\""+spread))
	list, err := lab.AwaitRunning(id, 3)
	must(t, err)
	for _, a := range list {
		p, err := examine(a)
		must(t, err)
		found = append(found, p)
	}
	return found
}

// requireService: three instances with addresses of a subnet, which a peer reaches.
func requireService(t *testing.T, from peer, name string, subnet netip.Prefix) {
	t.Helper()
	var instances []struct {
		Address string
		Port    int
	}
	must(t, cluster.Await(name+" is registered", func() error {
		err := lab.API(http.MethodGet, "service/"+name, nil, &instances)
		if err == nil && len(instances) != 3 {
			err = fmt.Errorf("registered are %v, want three", instances)
		}
		return err
	}))
	for _, i := range instances {
		if a, err := netip.ParseAddr(i.Address); err != nil || !subnet.Contains(a) || i.Port == 0 {
			t.Errorf("%s has the address %s and the port %d, want an address of %s", name, i.Address, i.Port, subnet)
			continue
		}
		// The jobs of the page do not listen: a reset comes from the address itself.
		if out, err := from.command("traffic", "refused", i.Address).CombinedOutput(); err != nil {
			t.Errorf("%s, %s: %v: %s", name, i.Address, err, out)
		}
	}
}
