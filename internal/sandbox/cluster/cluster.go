// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package cluster makes a cluster of Nomad in a sandbox: servers and clients are machines
// with network, mount and PID namespaces and directories of their own. They have two
// networks: one over which the agents talk, and one, like a VLAN of a data centre, that
// the allocations share.
package cluster

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

// The bridges of the sandbox, and the interfaces of the machines in them. The interface of
// a machine that is behind the router is in the bridge beyond, and is named as the others.
const (
	management = "mgmt"
	beyond     = "mgmt-beyond"
	wire       = "vlan"
)

// Addresses of the router, which is the sandbox itself.
const (
	router       = "172.31.0.254"
	routerBeyond = "172.31.1.254"
)

// Paths of all machines.
const (
	root     = "/mnt/cluster"
	programs = root + "/bin"
)

// Layout is what distinguishes clusters. In that of the zero value, all machines share a link.
type Layout struct {
	// Router puts the last client behind a router, and gives all machines a default route.
	Router bool
	// Networks are the plugins of further networks of the clients by name, in JSON.
	Networks map[string]string
	// Conflists are further networks of the clients by name, as whole configurations. Allocnet carries out their calls on all
	// clients: they have what plugins cannot do.
	Conflists map[string]string
	// Agent is further configuration of the allocnet agents, Client of the clients' Nomad, and Server
	// of the servers'.
	Agent, Client, Server string
}

// Cluster is three servers and three clients.
type Cluster struct {
	layout           Layout
	Servers, Clients []*Machine
	Jobs             Jobs
	// Token is Nomad's management token.
	Token string
	// Rules is the ACL policy of the allocnet agents.
	Rules string
	// answered is the number of the server that has answered last.
	answered atomic.Int32
}

// New prepares the machines of a cluster. Rules is the ACL policy of the allocnet agents.
func New(rules string, layout Layout) (*Cluster, error) {
	if err := prepare(); err != nil {
		return nil, err
	}
	c := &Cluster{Rules: rules, layout: layout}
	c.Jobs = Jobs{c}
	for i := range 3 {
		c.Servers = append(c.Servers, machine(fmt.Sprintf("s%d", i+1), byte(i+1)))
		c.Clients = append(c.Clients, machine(fmt.Sprintf("c%d", i+1), byte(i+11)))
	}
	if !layout.Router {
		return c, nil
	}
	for _, m := range append(c.Servers, c.Clients...) {
		m.gateway = router
	}
	last := c.Clients[2]
	last.bridge, last.Address, last.gateway = beyond, netip.AddrFrom4([4]byte{172, 31, 1, 13}), routerBeyond
	return c, nil
}

func machine(name string, host byte) *Machine {
	return &Machine{Name: name, Address: netip.AddrFrom4([4]byte{172, 31, 0, host}), bridge: management, dir: filepath.Join(root, name)}
}

// prepare makes the networks, and builds what the machines run.
func prepare() error {
	if err := sandbox.Cover("/mnt"); err != nil {
		return err
	}
	for _, dir := range []string{programs, "/etc/allocnet.d", "/opt"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := os.Symlink(nomadagent.Binary(), programs+"/nomad"); err != nil {
		return err
	}
	for i, bridge := range []string{management, beyond, wire} { // the address of the router does not follow the ports that come and go
		if err := sandbox.RunAll(fmt.Sprintf("ip link add %s address 02:00:5e:00:53:0%d type bridge", bridge, i), "ip link set "+bridge+" up"); err != nil {
			return err
		}
	}
	if err := sandbox.RunAll("ip address add "+router+"/24 dev "+management, "ip address add "+routerBeyond+"/24 dev "+beyond); err != nil {
		return err
	}
	return sandbox.Install(programs, "allocnet", "allocnet-cni", "allocnet-ipam", "web", "traffic")
}

// Start boots all machines, starts Nomad and the allocnet agents, and waits until jobs
// can run.
func (c *Cluster) Start() error {
	if err := c.StartServers(); err != nil {
		return err
	}
	if err := each(c.Clients, c.StartClient); err != nil {
		return err
	}
	return c.AwaitReady()
}

// StartServers boots the servers, starts Nomad on them, and waits until they have a leader.
func (c *Cluster) StartServers() error {
	if err := each(c.Servers, c.StartServer); err != nil {
		return err
	}
	return c.bootstrap()
}

// Close ends all machines.
func (c *Cluster) Close() {
	for _, m := range append(c.Servers, c.Clients...) {
		m.Off()
	}
}

// Renew starts a new cluster on the machines, which lose all that they have.
func (c *Cluster) Renew() error {
	c.Close()
	for _, m := range append(c.Servers, c.Clients...) {
		if err := m.Wipe("/"); err != nil {
			return err
		}
	}
	return c.Start()
}

func each(machines []*Machine, do func(*Machine) error) error {
	var group errgroup.Group
	for _, m := range machines {
		group.Go(func() error { return do(m) })
	}
	return group.Wait()
}

// limit is the longest wait.
const limit = 4 * time.Minute

// Await waits until there is no error, or returns the last one. Time in which the whole
// machine was suspended hardly counts. An attempt does not wait itself, or the limit would be
// one of attempts.
func Await(what string, try func() error) error {
	const most = 5 * time.Second
	for waited := time.Duration(0); ; {
		begun := time.Now()
		err := try()
		if err == nil {
			return nil
		}
		if waited > limit {
			return fmt.Errorf("waited in vain: %s: %w", what, err)
		}
		time.Sleep(max(100*time.Millisecond, sandbox.PauseAfter(time.Since(begun)))) // the servers answer, on the same processors
		waited += min(time.Since(begun), most)
	}
}

func randomHex() string {
	var bytes [16]byte
	_, _ = rand.Read(bytes[:]) // it cannot fail
	return hex.EncodeToString(bytes[:])
}
