// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/internal/dhcp"
	"github.com/allocnet/allocnet/internal/dhcp/client"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/state"
)

var (
	// start is when the lease of ADD was given.
	start     = 1000 * time.Second
	errKilled = errors.New("killed")
	silence   = &client.SilenceError{Asked: "extends the lease"}
	t0        = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
)

// first is the lease of ADD, of an hour, given 1000 s after boot.
func first() dhcp.Lease {
	return dhcp.Lease{
		ClientID: "a/lan/net0", Server: netip.MustParseAddr("10.0.0.1"), Address: netip.MustParsePrefix("10.0.0.5/24"), Gateway: netip.MustParseAddr("10.0.0.1"),
		Acquired: t0, Clock: dhcp.Span(start), Renewal: dhcp.Span(30 * time.Minute), Rebinding: dhcp.Span(52 * time.Minute), Lifetime: dhcp.Span(time.Hour),
	}
}

// world is a host with one attachment, whose servers, namespace and clock are in memory. Its records are files.
type world struct {
	kernel.Namespaces
	t      *testing.T
	dir    string
	config config.Config
	time   time.Duration
	// answer is what servers answer: to "renew", "rebind" or "acquire".
	answer func(asked string, l dhcp.Lease) (dhcp.Lease, error)
	asked  []string
	// guard is what messages to them are sent by.
	guard func(send func() error) error
	// wanted is the address that was asked for last; none: any.
	wanted netip.Addr
	// address is that of the interface, and gateway the default route by it; zero: none.
	address  netip.Prefix
	gateway  netip.Addr
	gone     bool
	observed []string
	// advertised are the addresses of the interface by router advertisements.
	advertised []netip.Prefix
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir(), time: start, address: first().Address, gateway: first().Gateway}
	w.config = config.Config{StateDir: w.dir, CacheDir: t.TempDir(), Namespaces: w, Cleaner: config.NoCleaner, Observers: []config.Observer{w}}
	l := first()
	a := state.Attachment{
		Network: "lan", Interface: "net0", ContainerID: "a", Phase: state.Attached, Executor: state.InProcess, Batch: state.Batch{Kind: state.BatchSetup}, Created: t0, DHCP: &l,
		ConfList: json.RawMessage(`{"cniVersion": "1.1.0", "name": "lan", "plugins": [{"type": "macvlan", "ipam": {"type": "dhcp"}}]}`),
		Result: json.RawMessage(`{"cniVersion": "1.1.0", "interfaces": [{"name": "net0", "mac": "02:00:00:00:00:05", "sandbox": "/ns"}],
			"ips": [{"address": "10.0.0.5/24", "gateway": "10.0.0.1", "interface": 0}], "routes": [{"dst": "0.0.0.0/0", "gw": "10.0.0.1"}, {"dst": "192.0.2.0/24", "gw": "10.0.0.9"}]}`),
		Status: json.RawMessage(`{"addresses": ["10.0.0.5/24"], "configured": ["10.0.0.5/24"], "gateways": ["10.0.0.1"]}`),
	}
	w.record(a)
	return w
}

func (w *world) record(a state.Attachment) {
	w.t.Helper()
	boot, err := state.BootID()
	if err != nil {
		w.t.Fatal(err)
	}
	lock, err := w.env(nil).Store.Lock(w.t.Context(), "a")
	if err != nil {
		w.t.Fatal(err)
	}
	defer lock.Unlock()
	if err := errors.Join(lock.Begin(state.Allocation{ID: "a", Mode: state.ModeSetup, Netns: "/ns", BootID: boot}, []state.Attachment{a}), lock.Write(a)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) env(intercept func(op, path string, change func() error) error) *operation.Env {
	w.t.Helper()
	env, err := operation.NewEnv(w.config, state.Open)
	if err != nil {
		w.t.Fatal(err)
	}
	if intercept != nil {
		env.Store.Intercept(intercept)
	}
	return env
}

func (w *world) Observe(o config.Observation) {
	w.observed = append(w.observed, fmt.Sprintf("%s %s %v", o.Op, o.Outcome(), o.Err))
}

// Open returns the namespace.
func (w *world) Open(path string) (kernel.Namespace, error) {
	if w.gone {
		return nil, &netns.MissingError{Path: path}
	}
	return &namespace{world: w}, nil
}

type namespace struct {
	kernel.Namespace
	world *world
}

func (*namespace) ID() string     { return "" }
func (*namespace) Handle() string { return "/ns" }
func (*namespace) Close() error   { return nil }

func (n *namespace) Interfaces() ([]netns.Interface, error) {
	i := netns.Interface{Name: "net0", Up: true, MTU: 1500, MAC: "02:00:00:00:00:05"}
	if n.world.address.IsValid() {
		i.Addresses = append(i.Addresses, n.world.address)
	}
	i.Advertised, i.Addresses = n.world.advertised, append(i.Addresses, n.world.advertised...)
	return []netns.Interface{i}, nil
}

func (n *namespace) DefaultRoutes() ([]netns.Route, error) {
	if !n.world.gateway.IsValid() {
		return nil, nil
	}
	return []netns.Route{{Interface: "net0", Gateway: n.world.gateway}}, nil
}

// conversation is with the servers of the world.
type conversation struct{ *world }

func (c conversation) ask(what string, l dhcp.Lease) (dhcp.Lease, error) {
	c.asked = append(c.asked, what)
	answer, err := c.answer(what, l)
	answer.ClientID, answer.Clock = l.ClientID, dhcp.Span(c.time)
	return answer, err
}

func (c conversation) Acquire(_ context.Context, wanted netip.Addr, requested func(dhcp.Lease) error) (dhcp.Lease, error) {
	l := first()
	if c.wanted = wanted; wanted.IsValid() && wanted != l.Address.Addr() && wanted != other().Address.Addr() {
		c.t.Errorf("%s is wanted", wanted)
	}
	if err := requested(l); err != nil {
		return l, err
	}
	return c.ask("acquire", l)
}
func (c conversation) Renew(_ context.Context, l dhcp.Lease) (dhcp.Lease, error) {
	return c.ask("renew", l)
}
func (c conversation) Rebind(_ context.Context, l dhcp.Lease) (dhcp.Lease, error) {
	return c.ask("rebind", l)
}
func (conversation) Release(dhcp.Lease) error { return nil }
func (conversation) Close()                   {}

// other is another lease, of another router.
func other() dhcp.Lease {
	l := first()
	l.Address, l.Gateway = netip.MustParsePrefix("10.0.0.77/24"), netip.MustParseAddr("10.0.0.2")
	return l
}

// keeper returns one that begins now, as after the start of an agent.
func (w *world) keeper(intercept func(op, path string, change func() error) error) *keeper {
	k := newKeeper(w.env(intercept))
	k.now = func() time.Duration { return w.time }
	k.open = func(_ context.Context, _ kernel.Namespace, _ string, _ dhcp.Family, of client.Identity) (client.Servers, error) {
		w.guard = of.Guard
		return conversation{w}, nil
	}
	k.enter = func(_ kernel.Namespace, _ string, l dhcp.Lease) error {
		if on := w.read().DHCP; l.Former == nil || !on.SameAs(l) || on.Former == nil {
			w.t.Errorf("the namespace gets %+v, and on record is %+v", l, on)
		}
		w.address, w.gateway = netip.Prefix{}, netip.Addr{}
		if !l.Lost {
			w.address = l.Address
			if l.HadDefault {
				w.gateway = l.Gateway
			}
		}
		return nil
	}
	return k
}

func (w *world) read() state.Attachment {
	w.t.Helper()
	record, err := w.env(nil).Store.Read("a")
	if err != nil || len(record.Attachments) != 1 || len(record.Damaged) > 0 {
		w.t.Fatalf("%+v, %v", record, err)
	}
	return record.Attachments[0]
}

// round makes a round at a time after the lease was given, and returns what was asked of servers.
func (w *world) round(k *keeper, after time.Duration) string {
	w.t.Helper()
	w.asked, w.time = nil, start+after
	if err := k.round(w.t.Context()); err != nil {
		w.t.Error(err)
	}
	k.group.Wait()
	return strings.Join(w.asked, " ")
}

// requireConsistent requires that record, result and namespace have the same.
func (w *world) requireConsistent() {
	w.t.Helper()
	a := w.read()
	result, err := onrecord.ParseResult(a.Result)
	if err != nil {
		w.t.Fatal(err)
	}
	seen, err := onrecord.ReadStatus(a)
	if err != nil {
		w.t.Fatal(err)
	}
	var want []netip.Prefix
	if !a.DHCP.Lost {
		want = append(want, a.DHCP.Address)
	}
	defaults := 0
	for _, r := range result.Routes {
		if isDefault(r) {
			defaults++
		}
	}
	if got := onrecord.InterfaceAddresses(result, "net0"); !slices.Equal(got, want) || a.DHCP.Former != nil || a.DHCP.Lost == w.address.IsValid() || !a.DHCP.Lost && w.address != a.DHCP.Address {
		w.t.Errorf("the result has %s, the interface %s, and on record is %+v", got, w.address, a.DHCP)
	}
	if !slices.Equal(seen.Configured, want) || (defaults == 1) == a.DHCP.Lost || len(seen.Gateways) != defaults {
		w.t.Errorf("seen is %+v; %d default routes", seen, defaults)
	}
	if !slices.ContainsFunc(result.Routes, func(r *types.Route) bool { return r.Dst.String() == "192.0.2.0/24" }) {
		w.t.Error("a route of the network itself is gone")
	}
}

// TestRenewal: a lease is extended by its server from T1 on, and not before, and nothing in the namespace is touched.
func TestRenewal(t *testing.T) {
	w := newWorld(t)
	w.answer = func(_ string, l dhcp.Lease) (dhcp.Lease, error) { return first(), nil }
	k := w.keeper(nil)
	k.enter = func(kernel.Namespace, string, dhcp.Lease) error { t.Error("the namespace is changed"); return nil }
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{30*time.Minute - 1, ""}, {30 * time.Minute, "renew"}, {31 * time.Minute, ""}, {60 * time.Minute, "renew"}} {
		if got := w.round(k, step.after); got != step.want {
			t.Errorf("after %s: %q, want %q", step.after, got, step.want)
		}
	}
	if got := time.Duration(w.read().DHCP.Clock); got != start+time.Hour {
		t.Errorf("on record is the lease of %s", got)
	}
	w.requireConsistent()
	if w.observed != nil {
		t.Errorf("observed: %s", w.observed)
	}
}

// TestSilence: a lease is renewed, rebound and lost in turn, and had again when a server is back, with the default route. An agent that
// starts anew goes on where the other one was.
func TestSilence(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		w := newWorld(t)
		w.answer = func(string, dhcp.Lease) (dhcp.Lease, error) { return dhcp.Lease{}, silence }
		k := w.keeper(nil)
		for _, step := range []struct {
			after time.Duration
			want  string
			lost  bool
		}{{30 * time.Minute, "renew", false}, {52 * time.Minute, "rebind", false}, {time.Hour - 1, "rebind", false}, {time.Hour, "acquire", true}, {61 * time.Minute, "acquire", true}} {
			if restarts {
				k = w.keeper(nil)
			}
			if got := w.round(k, step.after); got != step.want && (restarts || step.after != time.Hour-1 || got != "") {
				t.Errorf("after %s: %q, want %q", step.after, got, step.want)
			}
			if got := w.read().DHCP.Lost; got != step.lost {
				t.Errorf("after %s it is lost: %t", step.after, got)
			}
			w.requireConsistent()
		}
		w.answer = func(string, dhcp.Lease) (dhcp.Lease, error) { return first(), nil }
		w.round(k, 62*time.Minute)
		if a := w.read(); a.DHCP.Lost || w.gateway != first().Gateway {
			t.Errorf("with a server again: %+v, gateway %s", a.DHCP, w.gateway)
		}
		w.requireConsistent()
		if want := []string{"lease failed", "lease done <nil>"}; len(w.observed) != 2 || !strings.HasPrefix(w.observed[0], want[0]) || w.observed[1] != want[1] {
			t.Errorf("observed: %q", w.observed)
		}
	}
}

// TestRefusal: an address that is refused is replaced at once, or lost.
func TestRefusal(t *testing.T) {
	for name, test := range map[string]struct {
		lease dhcp.Lease
		err   error
		lost  bool
	}{
		"another address": {other(), nil, false}, "none": {dhcp.Lease{}, silence, true}, "the same": {first(), nil, false},
		"one that another interface has": {other(), &client.InUseError{Address: other().Address.Addr()}, true},
	} {
		w := newWorld(t)
		w.answer = func(asked string, _ dhcp.Lease) (dhcp.Lease, error) {
			if asked == "renew" {
				return dhcp.Lease{}, client.ErrRefused
			}
			return test.lease, test.err
		}
		if got := w.round(w.keeper(nil), 30*time.Minute); got != "renew acquire" {
			t.Errorf("%s: %q", name, got)
		}
		if a := w.read(); a.DHCP.Lost != test.lost || (a.DHCP.Address != test.lease.Address) != test.lost {
			t.Errorf("%s: %+v", name, a.DHCP)
		}
		w.requireConsistent()
	}
}

// TestDeclined: an address that another interface of the link has by now is not asked for again, also by an agent that starts anew: servers give it
// to the client that had it. That of a client which may be the other interface is, as it was not declined.
func TestDeclined(t *testing.T) {
	for clientID, isDeclined := range map[string]bool{first().ClientID: true, "nomad/default/db/main/0/lan/net0": false} {
		for _, refused := range []bool{true, false} {
			w := newWorld(t)
			a := w.read()
			a.DHCP.ClientID = clientID
			w.record(a)
			w.answer = func(asked string, _ dhcp.Lease) (dhcp.Lease, error) {
				switch {
				case asked == "acquire" && w.wanted == first().Address.Addr():
					return dhcp.Lease{}, &client.InUseError{Address: w.wanted}
				case asked == "acquire":
					return other(), nil
				case refused:
					return dhcp.Lease{}, client.ErrRefused
				}
				return dhcp.Lease{}, silence
			}
			w.round(w.keeper(nil), time.Hour-time.Second)
			w.round(w.keeper(nil), 60*time.Minute)
			w.round(w.keeper(nil), 61*time.Minute)
			if a := w.read(); a.DHCP.Lost == isDeclined || isDeclined && a.DHCP.Address != other().Address || a.DHCP.Declined {
				t.Errorf("the client %s, refused %t: %+v", clientID, refused, a.DHCP)
			}
			w.requireConsistent()
		}
	}
}

// TestChangedRouter: what a renewal changes, the namespace gets. A network whose default route is not that of the namespace has none.
func TestChangedRouter(t *testing.T) {
	for _, has := range []bool{true, false} {
		w := newWorld(t)
		if !has {
			a := w.read()
			a.Result = json.RawMessage(strings.Replace(string(a.Result), `{"dst":"0.0.0.0/0","gw":"10.0.0.1"},`, "", 1))
			a.Result = json.RawMessage(strings.Replace(string(a.Result), `{"dst": "0.0.0.0/0", "gw": "10.0.0.1"},`, "", 1))
			w.gateway = netip.Addr{}
			w.record(a)
		}
		w.answer = func(string, dhcp.Lease) (dhcp.Lease, error) {
			l := other()
			l.Address = first().Address
			return l, nil
		}
		w.round(w.keeper(nil), 30*time.Minute)
		want := netip.Addr{}
		if has {
			want = other().Gateway
		}
		if w.gateway != want || w.address != first().Address || w.read().DHCP.Gateway != other().Gateway {
			t.Errorf("had the default route %t: now it is %v", has, w.gateway)
		}
		if has {
			w.requireConsistent()
		}
	}
}

// TestKilled: a keeper is killed before or after each change of the disk, and before or after the namespace is changed. Its successor
// makes record and namespace the same.
func TestKilled(t *testing.T) {
	for at, done := 0, false; !done; at++ {
		w := newWorld(t)
		w.answer = func(asked string, _ dhcp.Lease) (dhcp.Lease, error) {
			if asked == "renew" {
				return dhcp.Lease{}, client.ErrRefused
			}
			return other(), nil
		}
		effects := 0
		effect := func(change func() error) error {
			effects++
			switch {
			case effects == at/2+1 && at%2 == 1: // after it
				_ = change()
				return errKilled
			case effects > at/2:
				return errKilled
			}
			return change()
		}
		k := w.keeper(func(_, _ string, change func() error) error { return effect(change) })
		enter := k.enter
		k.enter = func(n kernel.Namespace, iface string, l dhcp.Lease) error {
			return effect(func() error { return enter(n, iface, l) })
		}
		w.round(k, 30*time.Minute)
		done = effects <= at/2
		successor := w.keeper(nil)
		w.round(successor, 31*time.Minute)
		w.round(successor, 32*time.Minute)
		if a := w.read(); a.DHCP.Address != other().Address {
			t.Errorf("killed at %d: %+v", at, a.DHCP)
		}
		w.requireConsistent()
	}
}

// TestNotTouched: what another call works on, what is gone and what was attached anew is left alone.
func TestNotTouched(t *testing.T) {
	for name, change := range map[string]func(w *world, a *state.Attachment){
		"without a lease":      func(_ *world, a *state.Attachment) { a.DHCP = nil },
		"requested":            func(_ *world, a *state.Attachment) { a.DHCP.Requested = true },
		"being added":          func(_ *world, a *state.Attachment) { a.Phase = state.Adding },
		"being deleted":        func(_ *world, a *state.Attachment) { a.Phase = state.Deleting },
		"being attached again": func(_ *world, a *state.Attachment) { a.FormerResult = a.Result },
		"without a namespace":  func(w *world, _ *state.Attachment) { w.gone = true },
	} {
		w := newWorld(t)
		a := w.read()
		change(w, &a)
		w.record(a)
		w.answer = func(string, dhcp.Lease) (dhcp.Lease, error) { return other(), nil }
		if got := w.round(w.keeper(nil), time.Hour); got != "" || w.address != first().Address {
			t.Errorf("%s: asked %q, the address is %s", name, got, w.address)
		}
	}
	w := newWorld(t)
	w.answer = func(string, dhcp.Lease) (dhcp.Lease, error) { // meanwhile it is attached anew
		a := w.read()
		a.Created = a.Created.Add(time.Minute)
		w.record(a)
		return other(), nil
	}
	w.round(w.keeper(nil), 30*time.Minute)
	if w.address != first().Address || w.read().DHCP.Address != first().Address {
		t.Error("the lease of a former attachment replaces that of another one")
	}
}

// TestAskedOnce: a lease that is being extended is not extended by another round.
func TestAskedOnce(t *testing.T) {
	w := newWorld(t)
	k := w.keeper(nil)
	inside, release := make(chan struct{}), make(chan struct{})
	w.answer = func(string, dhcp.Lease) (dhcp.Lease, error) {
		close(inside)
		<-release
		return first(), nil
	}
	w.time = start + 30*time.Minute
	if err := k.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-inside
	if err := k.round(t.Context()); err != nil {
		t.Error(err)
	}
	close(release)
	k.group.Wait()
	if len(w.asked) != 1 {
		t.Errorf("asked: %s", w.asked)
	}
}

// TestSilentServers: leases that were lost, or whose servers of another network are silent, hold up none of which the server answers.
func TestSilentServers(t *testing.T) {
	for name, change := range map[string]func(a *state.Attachment){
		"lost":            func(a *state.Attachment) { a.DHCP.Lost = true },
		"another network": func(a *state.Attachment) { a.Network = "silent" },
	} {
		w := newWorld(t)
		w.time = start + 30*time.Minute
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		k, extended := w.keeper(nil), make(chan struct{})
		var asked atomic.Int32
		k.open = func(_ context.Context, _ kernel.Namespace, iface string, _ dhcp.Family, _ client.Identity) (client.Servers, error) {
			if iface == "net0" {
				close(extended)
				return nil, errKilled
			}
			asked.Add(1)
			<-ctx.Done() // no server answers
			return nil, ctx.Err()
		}
		a := w.read()
		work := func(iface string, a state.Attachment) {
			key := kept{"a", iface, a.Created, dhcp.IPv4}
			a.Interface = iface
			if !k.begin(key, *a.DHCP) {
				t.Fatalf("%s: nothing is due", name)
			}
			k.group.Go(func() { k.work(ctx, key, state.Allocation{ID: "a", Netns: "/ns"}, a, *a.DHCP) })
		}
		silent := w.read()
		change(&silent)
		for i := range 4 * parallel {
			work(fmt.Sprintf("silent%d", i), silent)
		}
		sandbox.Eventually(t, "the others are full", func() bool { return asked.Load() == parallel })
		work("net0", a)
		select {
		case <-extended:
		case <-time.After(time.Minute):
			t.Errorf("%s: the lease is not extended", name)
		}
		stop()
		k.group.Wait()
	}
}

// TestPanic ends the work on one lease alone, which is tried again.
func TestPanic(t *testing.T) {
	w := newWorld(t)
	w.answer = func(string, dhcp.Lease) (dhcp.Lease, error) { panic("no such index") }
	k := w.keeper(nil)
	w.round(k, 30*time.Minute)
	w.answer = func(string, dhcp.Lease) (dhcp.Lease, error) { return first(), nil }
	if got := w.round(k, 50*time.Minute); got != "renew" {
		t.Errorf("asked %q", got)
	}
}

// TestOneKeeper: while a process keeps leases it is known to, and with its end not any more.
func TestOneKeeper(t *testing.T) {
	w := newWorld(t)
	if state.LeasesAreKept(w.dir) || state.LeasesAreKept(w.dir+"/missing") {
		t.Error("leases are kept by none")
	}
	unlock, err := w.env(nil).Store.Leases().Keep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if !state.LeasesAreKept(w.dir) {
			t.Error("leases are not kept")
		}
	}
	unlock()
	if state.LeasesAreKept(w.dir) {
		t.Error("leases are kept still")
	}
}
