// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

const (
	// floating is a network whose ports are at an address that moves with the allocation.
	floating        = "floating"
	floatingAddress = "172.31.0.200"

	floatingConflist = `{"cniVersion": "1.1.0", "name": "` + floating + `", "allocnet": {"publishAddress": {
		"addresses": ["` + floatingAddress + `"], "interface": "mgmt",
		"ipam": {"type": "allocnet-ipam", "pool": "public", "ranges": [{"subnet": "172.31.0.192/27"}], "reserved": ["172.31.0.200/29"]}}},
		"plugins": [{"type": "bridge", "bridge": "floating0", "isGateway": true, "ipMasq": true, "ipam": {
			"type": "host-local", "ranges": [[{"subnet": "10.99.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
		{"type": "portmap", "capabilities": {"portMappings": true}}]}`
)

// floatingScene is a client of the address outside of the cluster, beside the job that has it.
type floatingScene struct {
	*scene
	holders *holders
	job     cluster.Job
	// silent is a neighbour of the machines that has reached the address, and sends nothing since.
	silent string

	mu sync.Mutex
	// first and last have when an allocation has answered.
	first, last map[string]time.Time
}

func beginFloating(t *testing.T) *floatingScene {
	t.Helper()
	s := begin(t)
	f := &floatingScene{scene: s, holders: follow(t, floatingAddress), silent: "silent", first: map[string]time.Time{}, last: map[string]time.Time{}}
	f.job = cluster.Job{ID: s.name("floating"), Network: floating, Count: 1, Port: 8080, Command: []string{"web", "serve", "${NOMAD_ALLOC_ID}"}}
	for _, command := range []string{
		"netns add silent", "link add silent type veth peer name eth0 netns silent", "link set silent master mgmt up",
		"-n silent address add 172.31.0.253/24 dev eth0", "-n silent link set eth0 up",
	} {
		sandbox.Run(t, append([]string{"ip"}, strings.Fields(command)...)...)
	}
	t.Cleanup(func() { sandbox.Run(t, "ip", "netns", "delete", f.silent) })
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		f.connect(stop)
	}()
	t.Cleanup(func() {
		close(stop)
		<-stopped
	})
	return f
}

// connect makes one connection after the other, and notes which allocation answers.
func (f *floatingScene) connect(stop chan struct{}) {
	client := &http.Client{Timeout: 300 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		select {
		case <-stop:
			return
		case <-time.After(10 * time.Millisecond):
		}
		response, err := client.Get("http://" + floatingAddress + ":8080")
		if err != nil {
			continue
		}
		body, _ := io.ReadAll(response.Body) // what is not read is no ID
		_ = response.Body.Close()
		id, _, _ := strings.Cut(string(body), ",")
		f.mu.Lock()
		if f.last[id] = time.Now(); f.first[id].IsZero() {
			f.first[id] = f.last[id]
		}
		f.mu.Unlock()
	}
}

// answered returns when an allocation has answered, or zero.
func (f *floatingScene) answered(id string) (first, last time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first[id], f.last[id]
}

// running waits until the job has an allocation on another machine than one, which has the address and answers there.
func (f *floatingScene) running(not *cluster.Machine) (a cluster.Allocation, on *cluster.Machine) {
	f.Helper()
	begun := time.Now()
	must(f, cluster.Await("the allocation answers", func() error {
		list, err := lab.Jobs.Running(f.job.ID, 1)
		if err != nil {
			return err
		}
		a, on = list[0], machineOf(list[0])
		_, last := f.answered(a.ID)
		if on == not || last.Before(begun) || f.holders.now() != on.Name {
			return fmt.Errorf("%s on %s has answered at %s, and %q has the address", a.ID, a.NodeName, last, f.holders.now())
		}
		return nil
	}))
	return a, on
}

func machineOf(a cluster.Allocation) *cluster.Machine {
	return lab.Clients[slices.IndexFunc(lab.Clients, func(m *cluster.Machine) bool { return m.Name == a.NodeName })]
}

// requireShown: every machine tells where the address is.
func (f *floatingScene) requireShown(on *cluster.Machine) {
	f.Helper()
	for _, m := range lab.Clients {
		if !m.Runs(cluster.Agent) {
			continue
		}
		out := shown(f, m, "public")
		i := slices.IndexFunc(strings.Split(out, "\n"), func(line string) bool {
			return strings.Contains(line, floatingAddress+" ") && strings.Contains(line, "published") && strings.Contains(line, on.Name)
		})
		if i < 0 {
			f.Errorf("%s shows, want %s published on %s:\n%s", m.Name, floatingAddress, on.Name, out)
		}
	}
}

// neighbour is the hardware address that the silent neighbour has for the address.
func (f *floatingScene) neighbour() string {
	f.Helper()
	return sandbox.Run(f, "ip", "-n", f.silent, "neighbour", "show", floatingAddress)
}

// requireAnnounced: the silent neighbour sends to the machine, of which it has only been told.
func (f *floatingScene) requireAnnounced(on *cluster.Machine) {
	f.Helper()
	hardware, err := on.Run("cat", "/sys/class/net/mgmt/address")
	must(f, err)
	must(f, cluster.Await("the neighbour is told", func() error {
		if got := f.neighbour(); !strings.Contains(got, strings.TrimSpace(hardware)) {
			return fmt.Errorf("it has %q, want %s of %s", got, hardware, on.Name)
		}
		return nil
	}))
}

// gone waits until no machine has the address.
func (f *floatingScene) gone() {
	f.Helper()
	must(f, cluster.Await("the address is gone", func() error {
		f.holders.mu.Lock()
		defer f.holders.mu.Unlock()
		if has := f.holders.has; len(has) > 0 {
			return fmt.Errorf("the namespaces %v have it", has)
		}
		return nil
	}))
}

// event returns when the task of an allocation had an event last.
func event(a cluster.Allocation, name string) (at time.Time) {
	for _, e := range a.TaskStates["t"].Events {
		if e.Type == name {
			at = time.Unix(0, e.Time)
		}
	}
	return at
}

// moved prints how long the parts of a move took.
func (f *floatingScene) moved(before, after cluster.Allocation) {
	f.Helper()
	must(f, cluster.Await("the allocations are read", func() error {
		return errors.Join(lab.API(http.MethodGet, "allocation/"+before.ID, nil, &before), lab.API(http.MethodGet, "allocation/"+after.ID, nil, &after))
	}))
	end := event(before, "Killed")
	_, last := f.answered(before.ID)
	first, _ := f.answered(after.ID)
	text := fmt.Sprintf("%s to %s: without an answer for %s. After the task had ended:", before.NodeName, after.NodeName, first.Sub(last).Round(time.Millisecond))
	for _, part := range []struct {
		what string
		at   time.Time
	}{
		{"last answer", last},
		{"gone", f.holders.last(machineOf(before), false)},
		{"there", f.holders.last(machineOf(after), true)},
		{"new task built", event(after, "Task Setup")},
		{"new task started", event(after, "Started")},
		{"first answer", first},
	} {
		text += fmt.Sprintf(" %s %s,", part.what, part.at.Sub(end).Round(time.Millisecond))
	}
	f.Log(strings.TrimSuffix(text, ","))
}

// TestFloating: a published address follows its job when machines are drained. One machine has it at a time, each tells where it is, and
// its neighbours learn of it.
func TestFloating(t *testing.T) {
	f := beginFloating(t)
	f.start(f.job)
	before, on := f.running(nil)
	f.requireShown(on)
	sandbox.Run(t, "ip", "netns", "exec", f.silent, "curl", "--silent", "--fail", "http://"+floatingAddress+":8080")
	f.requireAnnounced(on)
	for range 2 {
		f.drain(on)
		after, next := f.running(on)
		f.moved(before, after)
		f.requireShown(next)
		f.requireAnnounced(next)
		f.undrain(on)
		before, on = after, next
	}
	must(t, lab.Jobs.Stop(f.job.ID))
	f.gone()
	if out := shown(t, on, "public"); strings.Contains(out, "published") {
		t.Errorf("after the job has ended:\n%s", out)
	}
}

// TestLongFloatingKilled kills the agents of both machines at random instants of a move. The address has one holder all the time, and comes.
func TestLongFloatingKilled(t *testing.T) {
	f := beginFloating(t)
	f.start(f.job)
	before, on := f.running(nil)
	for range 4 {
		f.drain(on)
		for range 3 {
			m := lab.Clients[rand.N(3)]
			f.restart(m, cluster.Agent, m.StartAgent)
		}
		after, next := f.running(on)
		f.moved(before, after)
		f.undrain(on)
		before, on = after, next
	}
	must(t, lab.Jobs.Stop(f.job.ID))
	f.gone()
}

// TestLongFloatingWithoutServers: a host gives the address up while no server answers, and tells the store later. Until then no other host
// has it.
func TestLongFloatingWithoutServers(t *testing.T) {
	f := beginFloating(t)
	c1, c2 := lab.Clients[0], lab.Clients[1]
	words := []string{"allocnet", "attach", "web", "--primary", floating, "--publish", "8080:80"}
	_, err := c1.Run(words...)
	must(t, err)
	f.requireShown(c1)
	for _, server := range lab.Servers {
		must(t, server.Signal(cluster.Nomad, unix.SIGSTOP))
	}
	_, err = c1.Run("allocnet", "detach", "web")
	must(t, err)
	f.gone()
	if out, err := c2.Run(words...); err == nil || !strings.Contains(out, "store") {
		t.Errorf("attached without a server: %v: %s", err, out)
	}
	pause(30 * time.Second)
	for _, server := range lab.Servers {
		must(t, server.Signal(cluster.Nomad, unix.SIGCONT))
	}
	must(t, cluster.Await("the servers answer", func() error { return lab.API(http.MethodGet, "nodes", nil, nil) }))
	begun := time.Now()
	must(t, cluster.Await("the other host has the address", func() error {
		_, err := c2.Run(words...)
		return err
	}))
	t.Logf("the other host has it %s after the servers answer", time.Since(begun).Round(time.Millisecond))
	f.requireShown(c2)
	_, err = c2.Run("allocnet", "detach", "web")
	must(t, err)
	f.gone()
}

// TestLongFloatingPowerOff: no host takes the address of one without power, as only that knows what its interface has, until the operator
// says that it is gone. One that comes back gives the address back itself.
func TestLongFloatingPowerOff(t *testing.T) {
	f := beginFloating(t)
	f.start(f.job)
	_, on := f.running(nil)
	old, err := lab.Nodes(on)
	must(t, err)
	f.holders.off(on)
	must(t, cluster.Await("the job waits elsewhere", func() error { return f.requireWaiting(on) }))
	pause(20 * time.Second)
	if has := f.holders.now(); has != "" {
		t.Errorf("%s has the address of a host without power", has)
	}
	f.release(old[len(old)-1:])
	_, next := f.running(on)
	f.requireShown(next)
	must(t, lab.StartClient(on))
	must(t, lab.AwaitReady())
	f.holders.off(next)
	must(t, cluster.Await("the job waits elsewhere", func() error { return f.requireWaiting(next) }))
	must(t, lab.StartClient(next))
	must(t, lab.AwaitReady())
	_, last := f.running(nil)
	f.requireShown(last)
	must(t, lab.Jobs.Stop(f.job.ID))
	f.gone()
}

// TestLongFloatingPartitioned: a machine that no server reaches keeps the address of its allocation, which has been started elsewhere, and
// waits there until the machine is back.
func TestLongFloatingPartitioned(t *testing.T) {
	f := beginFloating(t)
	f.start(f.job)
	_, on := f.running(nil)
	must(t, on.Unplug())
	must(t, cluster.Await("the job waits elsewhere", func() error { return f.requireWaiting(on) }))
	pause(20 * time.Second)
	if has := f.holders.now(); has != on.Name {
		t.Errorf("%q has the address, want %s, which the servers do not reach", has, on.Name)
	}
	must(t, on.Plug())
	must(t, lab.AwaitReady())
	_, now := f.running(nil)
	f.requireShown(now)
	must(t, lab.Jobs.Stop(f.job.ID))
	f.gone()
}

// requireWaiting is an error unless the job has an allocation on another machine than one, which does not run.
func (f *floatingScene) requireWaiting(not *cluster.Machine) error {
	list, err := lab.Jobs.Allocations(f.job.ID)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(a cluster.Allocation) bool { return a.NodeName != not.Name && a.ClientStatus == "pending" }) {
		return fmt.Errorf("none waits: %s", cluster.Explain(list))
	}
	return nil
}
