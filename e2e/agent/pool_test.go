// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/cluster/hostid"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// variables are those of a Nomad server whose token can lose its rights.
type variables struct {
	storetest.Fake
	// refused is the method of the requests that are refused, or "all". Empty: none.
	refused atomic.Value
}

func (v *variables) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if refused, _ := v.refused.Load().(string); refused == "all" || refused == r.Method {
		http.Error(w, "Permission denied", http.StatusForbidden)
		return
	}
	if r.URL.Path == "/v1/vars" {
		v.list(w, r)
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, "/v1/var/")
	if !ok {
		http.Error(w, "no such page", http.StatusNotFound)
		return
	}
	index, err := v.exchange(r, path)
	switch {
	case errors.Is(err, ipam.ErrNotFound):
		http.Error(w, "variable not found", http.StatusNotFound)
		return
	case errors.Is(err, ipam.ErrConflict):
		w.WriteHeader(http.StatusConflict)
	}
	entry, _ := v.Get(r.Context(), path) // none was deleted
	_ = json.NewEncoder(w).Encode(map[string]any{"Path": path, "ModifyIndex": max(index, entry.Index), "Items": map[string]string{"entry": string(entry.Content)}})
}

// exchange carries out a request for one variable.
func (v *variables) exchange(r *http.Request, path string) (uint64, error) {
	index, _ := strconv.ParseUint(r.URL.Query().Get("cas"), 10, 64)
	var body struct{ Items map[string]string }
	_ = json.NewDecoder(r.Body).Decode(&body) // empty but for PUT
	switch content := []byte(body.Items["entry"]); {
	case r.Method == http.MethodDelete:
		return 0, v.Delete(r.Context(), path, index)
	case r.Method == http.MethodGet:
		entry, err := v.Get(r.Context(), path)
		return entry.Index, err
	case index == 0:
		return v.Create(r.Context(), path, content)
	default:
		return v.Update(r.Context(), path, content, index)
	}
}

func (v *variables) list(w http.ResponseWriter, r *http.Request) {
	listing, _ := v.List(r.Context(), r.URL.Query().Get("prefix"), 0) // without waiting for a change
	page := []map[string]any{}
	for _, e := range listing.Entries {
		page = append(page, map[string]any{"Path": e.Path, "ModifyIndex": e.Index})
	}
	w.Header().Set("X-Nomad-Index", strconv.FormatUint(listing.Index, 10))
	_ = json.NewEncoder(w).Encode(page)
}

// pooled is a host with a network whose pool is in the variables of a server.
type pooled struct {
	*host
	store *variables
	dir   string
	// attached is the number of allocations.
	attached int
}

func newPooled(t *testing.T) *pooled {
	t.Helper()
	p := &pooled{host: newHost(t), store: &variables{}, dir: t.TempDir()}
	server := httptest.NewServer(p.store)
	t.Cleanup(server.Close)
	if err := os.Mkdir(p.dir+"/conf", 0o700); err != nil {
		t.Fatal(err)
	}
	sandbox.WriteFile(t, p.dir+"/conf/agent.hcl", fmt.Sprintf("ipam {}\nnomad {\n  address = %q\n  node_id = \"0b2e7b1c-94c2-4c2a-8a0e-5a4e1d0c9f01\"\n}\n", server.URL))
	p.configure("ipam {}\n")
	p.network(30)
	p.start()
	return p
}

// network writes the network with a size of its blocks.
func (p *pooled) network(blockSize int) {
	p.Helper()
	sandbox.WriteFile(p.T, p.conf+"/60-pooled.conflist", fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "pooled", "plugins": [{"type": "bridge", "bridge": "storage0",
		"ipam": {"type": "allocnet-ipam", "pool": "p", "cooldown": "0s", "ranges": [{"subnet": "10.94.0.0/24"}], "blockSize": {"4": %[1]d},
		 "stateDir": %[2]q, "dataDir": "%[2]s/leases", "configDir": "%[2]s/conf"}}]}`, blockSize, p.dir))
}

func (p *pooled) addresses(state string) float64 {
	return p.metric(`allocnet_ipam_addresses{family="ipv4",pool="p",state="` + state + `"}`)
}

func (p *pooled) claims(outcome string) float64 {
	return p.metric(`allocnet_ipam_claims_total{outcome="` + outcome + `",pool="p"}`)
}

func (p *pooled) age() float64 { return p.metric(`allocnet_ipam_verified_seconds{pool="p"}`) }

// attach attaches so many further allocations, each of which gets an address.
func (p *pooled) attach(n int) {
	p.Helper()
	for range n {
		p.attached++
		must[*api.Allocation](p.host)(p.client.Setup(ctx, fmt.Sprintf("pooled-%d", p.attached), api.Setup{Primary: api.Selection{{Name: "pooled"}}}))
	}
}

// awaitProblem waits until the agent is not ready because of the pool, with the words, and has a
// metric for it.
func (p *pooled) awaitProblem(kind string, words ...string) {
	p.Helper()
	p.await("the pool is "+kind, func() bool {
		status, body := p.request("GET", "/readyz", "")
		for _, word := range append(words, "pool p: ") {
			if status != http.StatusServiceUnavailable || !strings.Contains(body, word) {
				return false
			}
		}
		return p.metric(`allocnet_ipam_problems{pool="p",problem="`+kind+`"}`) == 1
	})
}

func (p *pooled) awaitReady() {
	p.Helper()
	p.await("the agent is ready", func() bool {
		status, _ := p.request("GET", "/readyz", "")
		return status == http.StatusOK
	})
	for _, kind := range []string{"refused", "twin", "mismatch"} {
		if p.metric(`allocnet_ipam_problems{pool="p",problem="`+kind+`"}`) != 0 {
			p.Errorf("the agent is ready, and the pool is %s", kind)
		}
	}
}

// TestLongPoolMetrics: the agent counts the addresses of its blocks, its claims by outcome, and the
// time since it verified.
func TestLongPoolMetrics(t *testing.T) {
	p := newPooled(t)
	p.await("a block is claimed ahead", func() bool { return p.claims("claimed") == 1 && p.addresses("free") > 0 })
	free := p.addresses("free")
	p.attach(1)
	if used, left := p.addresses("used"), p.addresses("free"); used != 1 || left != free-1 {
		t.Errorf("%v addresses are used and %v free after one of %v was assigned", used, left, free)
	}
	p.attach(int(free) - 1)
	p.await("a second block is claimed ahead", func() bool { return p.claims("claimed") == 2 && p.addresses("free") > 0 })

	p.store.refused.Store(http.MethodPut)
	p.attach(int(p.addresses("free")))
	p.await("a claim is refused", func() bool { return p.claims("refused") > 0 })
	p.awaitProblem("refused", "Permission denied", `capabilities = `)
	p.store.refused.Store("all")
	before := p.age()
	p.await("the last verification gets older", func() bool { return p.age() > before+3 })
	old := p.age()
	p.store.refused.Store("")
	p.await("the blocks are verified again", func() bool { return p.age() < old })
	p.await("a third block is claimed ahead", func() bool { return p.claims("claimed") > 2 })
	p.awaitReady()
	for n := 1; n <= p.attached; n++ {
		if err := p.client.Teardown(ctx, fmt.Sprintf("pooled-%d", n)); err != nil {
			t.Error(err)
		}
	}
	p.await("no address is used", func() bool { return p.addresses("used") == 0 })
}

// TestLongPoolProblems: /readyz names what is wrong with a pool while it is.
func TestLongPoolProblems(t *testing.T) {
	p := newPooled(t)
	p.await("a block is claimed ahead", func() bool { return p.claims("claimed") == 1 })
	p.awaitReady()
	p.store.refused.Store("all")
	p.awaitProblem("refused", "Permission denied", "allocnet/ipam/")
	p.store.refused.Store("")
	p.awaitReady()
	p.network(29)
	p.awaitProblem("mismatch", "30", "29")
	p.network(30)
	p.awaitReady()
	p.clone()
	p.awaitProblem("twin", "was refused", "node.json")
}

// clone writes what a clone of the host would write in the store when it starts.
func (p *pooled) clone() {
	p.Helper()
	id := must[hostid.Identity](p.host)(hostid.Read(p.dir + "/ipam"))
	clone := ipam.NodeContent{Host: id.Host, Nonce: strings.Repeat("c", 32)}
	clone.Host.Boot = "the clone's"
	present := must[ipam.Entry](p.host)(p.store.Get(ctx, ipam.NodePath(id.Instance)))
	must[uint64](p.host)(p.store.Update(ctx, present.Path, ipam.Encode(clone), present.Index))
}
