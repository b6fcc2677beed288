// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pools

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cluster/connect"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/nomadstore"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
	"github.com/allocnet/allocnet/cluster/rest"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// servers are three servers of Nomad, with their data on the machine's disk.
type servers struct {
	*cluster.Cluster
	tokenFile string
	// hosts is the number of hosts that there were, and requests are theirs to write.
	hosts    int
	requests atomic.Int64
}

func startServers(b *testing.B) *servers {
	b.Helper()
	// All hosts have one address, of which Nomad takes 100 connections.
	c, err := cluster.New("", cluster.Layout{Server: "limits {\n http_max_conns_per_client = 0\n}\n"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	for _, m := range c.Servers {
		onDisk(b, m.Path("/var/lib"))
	}
	if err := c.StartServers(); err != nil {
		b.Fatal(err)
	}
	s := &servers{Cluster: c, tokenFile: filepath.Join(b.TempDir(), "token")}
	sandbox.WriteFile(b, s.tokenFile, c.Token+"\n")
	err = cluster.Await("variables can be written", func() error {
		_, err := nomadstore.New(s.client(b, 0), "").Create(b.Context(), "allocnet/ipam/1/first", []byte("x"))
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// onDisk puts a directory of a machine, whose others are in memory, on the machine's disk.
func onDisk(b *testing.B, path string) {
	b.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		b.Fatal(err)
	}
	if err := unix.Mount(b.TempDir(), path, "", unix.MS_BIND, ""); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) }) // the sandbox ends with it
}

func (s *servers) address(number int) string {
	return "http://" + s.Servers[number%len(s.Servers)].Address.String() + ":4646"
}

// client is a connection to one of the servers, by its number.
func (s *servers) client(b *testing.B, number int) *rest.Client {
	b.Helper()
	client, err := rest.New(rest.Config{Address: s.address(number), TokenFile: s.tokenFile})
	if err != nil {
		b.Fatal(err)
	}
	return client
}

// raftIndex is the number of Raft writes up to now, as the server has it that knows most.
func (s *servers) raftIndex(b *testing.B) uint64 {
	b.Helper()
	var most uint64
	for i := range s.Servers {
		answer, err := s.client(b, i).Do(b.Context(), rest.Request{Method: http.MethodGet, Path: "/v1/agent/self", MostBytes: 1 << 20})
		if err != nil {
			b.Fatal(err)
		}
		var self struct{ Stats map[string]map[string]string }
		if err := json.Unmarshal(answer.Body, &self); err != nil {
			b.Fatal(err)
		}
		index, err := strconv.ParseUint(self.Stats["raft"]["last_log_index"], 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		most = max(most, index)
	}
	return most
}

// host is a simulated host: a pool with a directory and a connection of its own. All hosts are
// on one machine.
type host struct{ *pool.Pool }

// newHost returns another host, whose pool has the keys.
func (s *servers) newHost(b *testing.B, keys string) host {
	b.Helper()
	dir := b.TempDir()
	s.hosts++
	sandbox.WriteFile(b, filepath.Join(dir, "allocnet.hcl"), fmt.Sprintf("nomad {\n address = %q\n token_file = %q\n node_id = %q\n}\nipam {}\n",
		s.address(s.hosts), s.tokenFile, fmt.Sprintf("%08x-0000-0000-0000-000000000000", s.hosts)))
	config, err := ipam.Parse(fmt.Appendf(nil, `{"type": "allocnet-ipam", %s, "dataDir": %q, "stateDir": %q, "configDir": %q}`,
		keys, filepath.Join(dir, "leases"), filepath.Join(dir, "state"), dir))
	if err != nil {
		b.Fatal(err)
	}
	connection := connect.New(dir, filepath.Join(dir, "state"))
	return host{pool.New(pool.Options{Config: config, Open: func() (ipam.Store, ipam.Host, error) {
		store, self, err := connection.Open()
		return &counting{store, &s.requests}, self, err
	}})}
}

func attachment(id string) ipam.Owner { return ipam.Owner{ContainerID: id, Interface: "eth0"} }

// add gives an attachment an address.
func (h host) add(b *testing.B, id string) (netip.Addr, error) {
	assigned, err := h.Add(b.Context(), ipam.Request{Owner: attachment(id)})
	if err != nil {
		return netip.Addr{}, err
	}
	return assigned[0].Address.Addr(), nil
}

func (h host) del(b *testing.B, id string) error { return h.Del(b.Context(), attachment(id)) }

// counting counts requests to write, those that are refused among them.
type counting struct {
	ipam.Store
	writes *atomic.Int64
}

func (c *counting) Create(ctx context.Context, path string, content []byte) (uint64, error) {
	c.writes.Add(1)
	return c.Store.Create(ctx, path, content)
}

func (c *counting) Update(ctx context.Context, path string, content []byte, index uint64) (uint64, error) {
	c.writes.Add(1)
	return c.Store.Update(ctx, path, content, index)
}

func (c *counting) Delete(ctx context.Context, path string, index uint64) error {
	c.writes.Add(1)
	return c.Store.Delete(ctx, path, index)
}
