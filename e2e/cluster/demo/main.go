// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Command demo shows addresses that are unique in a cluster, and a network that spans its hosts:
// three servers and three clients of Nomad on one machine, in namespaces that end with it.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/cluster"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

func main() {
	cluster.Main()
	os.Exit(sandbox.Main(func() int { return nomadagent.Run(demo) }))
}

// job has allocations that keep their addresses.
var job = cluster.Job{ID: "demo", Network: cluster.Kept, Count: 6}

// spread is a job with an allocation on each client, on a network that spans them.
var spread = cluster.Job{ID: "spread", Network: "span", Count: 3, Group: "constraint {\n distinct_hosts = true\n}"}

// layout has one client behind a router.
var layout = cluster.Layout{Router: true, Networks: map[string]string{"span": `{"type": "ptp", "ipMasq": true, "mtu": 1450,
	"ipam": {"type": "allocnet-ipam", "pool": "span", "mode": "auto", "ranges": [{"subnet": "10.110.0.0/16"}]}}`}}

func demo() int {
	if err := show(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func show() error {
	rules, err := cluster.Policy()
	if err != nil {
		return err
	}
	say("Three servers and three clients of Nomad, and a network that the clients share")
	c, err := cluster.New(rules, layout)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := await("the servers and clients start", c.Start); err != nil {
		return err
	}
	before, err := share(c)
	if err != nil {
		return err
	}
	if err := span(c); err != nil {
		return err
	}
	if err := lose(c, before); err != nil {
		return err
	}
	say("All machines are turned off, and nothing is left on this one")
	return nil
}

// share runs a job whose allocations reach each other from all clients.
func share(c *cluster.Cluster) ([]cluster.Allocation, error) {
	say("A job with six allocations, each with an address of its own on that network")
	if err := c.Jobs.Submit(job); err != nil {
		return nil, err
	}
	list, err := awaitRunning(c, job)
	if err != nil {
		return nil, err
	}
	table(list)
	say("The first one reaches the others over that network alone")
	if err := reach(c, list); err != nil {
		return nil, err
	}
	say("What Nomad's variables say of the addresses")
	if err := awaitUntil("the agents have claimed blocks", func() error { return claimed(c) }); err != nil {
		return nil, err
	}
	return list, run(c, "c1", "allocnet", "ipam", "show", cluster.Kept)
}

// awaitRunning returns the allocations of a job when they run.
func awaitRunning(c *cluster.Cluster, j cluster.Job) (list []cluster.Allocation, err error) {
	err = await("until the allocations of "+j.ID+" run", func() error {
		list, err = c.Jobs.AwaitRunning(j.ID, j.Count)
		return err
	})
	return list, err
}

// awaitUntil waits until something is so.
func awaitUntil(what string, is func() error) error {
	return await("until "+what, func() error { return cluster.Await(what, is) })
}

// reach has the first allocation talk to the others.
func reach(c *cluster.Cluster, list []cluster.Allocation) error {
	for _, other := range list[1:] {
		if err := run(c, list[0].NodeName, "ip", "netns", "exec", list[0].ID, "web", "get", "http://"+other.Address().String()+"/"); err != nil {
			return err
		}
	}
	return nil
}

// span runs a job on a network that needs no link between the clients.
func span(c *cluster.Cluster) error {
	say("A job with an allocation on each client, of which c3 is behind a router. The hosts route their network to each other")
	if err := c.Jobs.Submit(spread); err != nil {
		return err
	}
	list, err := awaitRunning(c, spread)
	if err != nil {
		return err
	}
	table(list)
	if err := reach(c, list); err != nil {
		return err
	}
	say("The way from c1 to the others")
	if err := awaitUntil("the other hosts reply", func() error { // each is asked every 15 s
		_, err := c.Clients[0].Run("allocnet", "cluster", "status")
		return err
	}); err != nil {
		return err
	}
	if err := run(c, "c1", "allocnet", "cluster", "status"); err != nil {
		return err
	}
	return run(c, "c1", "allocnet", "cluster", "ping")
}

// claimed is an error until each client has a block beside its reserved addresses.
func claimed(c *cluster.Cluster) error {
	for _, m := range c.Clients {
		out, err := m.Run("allocnet", "ipam", "show", cluster.Kept)
		if err != nil || !strings.Contains(out, m.Name+" (this host)  held") {
			return fmt.Errorf("%s has no block: %w: %s", m.Name, err, out)
		}
	}
	return nil
}

// lose turns a client off.
func lose(c *cluster.Cluster, before []cluster.Allocation) error {
	lost := c.Clients[2]
	say("The machine " + lost.Name + " loses power. Nomad starts its allocations elsewhere: they wait for their addresses, because " + lost.Name + " could be alive")
	lost.Off()
	if err := awaitUntil(lost.Name+" is down", func() error { return c.RequireStatus(lost, "down") }); err != nil {
		return err
	}
	say("The operator knows that it is off")
	nodes, err := c.Nodes(lost)
	if err != nil {
		return err
	}
	if err := run(c, "c1", "allocnet", "ipam", "release", "--node", nodes[0].ID, "--force", "--yes"); err != nil {
		return err
	}
	after, err := awaitRunning(c, job)
	if err != nil {
		return err
	}
	say("Each allocation has the address that it had")
	table(after)
	if err := compare(before, after); err != nil {
		return err
	}
	return run(c, "c1", "allocnet", "ipam", "show", cluster.Kept)
}

// compare is an error if an allocation of after has not the address that the one with its
// name had before.
func compare(before, after []cluster.Allocation) error {
	for _, a := range after {
		i := slices.IndexFunc(before, func(b cluster.Allocation) bool { return b.Name == a.Name })
		if i < 0 || before[i].Address() != a.Address() {
			return fmt.Errorf("%s has the address %s, which it had not before", a.Name, a.Address())
		}
	}
	return nil
}

func table(list []cluster.Allocation) {
	slices.SortFunc(list, func(a, b cluster.Allocation) int { return strings.Compare(a.Name, b.Name) })
	for _, a := range list {
		fmt.Printf("%s  %s  %s  %s\n", a.ID[:8], a.Name, a.NodeName, a.Address())
	}
}

// run shows a command and what it prints, on a client.
func run(c *cluster.Cluster, client string, words ...string) error {
	fmt.Println(shaded("36", client+"$ "+strings.Join(words, " ")))
	for _, m := range c.Clients {
		if m.Name == client {
			out, err := m.Run(words...)
			fmt.Print(out)
			return err
		}
	}
	return fmt.Errorf("no client is named %s", client)
}

var begun = time.Now()

func say(text string) {
	fmt.Println("\n" + shaded("1", fmt.Sprintf("# %3.0f s  %s", time.Since(begun).Seconds(), text)))
}

// shaded is a text in a colour, or bold, on a terminal.
func shaded(code, text string) string {
	if info, err := os.Stdout.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 || os.Getenv("NO_COLOR") != "" {
		return text
	}
	return "\033[" + code + "m" + text + "\033[0m"
}
