// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// errKilled is what a dead process gets for everything that it begins.
var errKilled = errors.New("the process is dead")

// killer ends the engine's process at one of its effects: calls of plugins and of the
// cleaner, and changes of records and of namespaces. From then on nothing that the
// engine does has an effect, so the host stays as kill -9 leaves it.
type killer struct {
	mu sync.Mutex
	// left is how many effects come before the last one.
	left int
	// at is the name of the last effect, unless it is empty.
	at string
	// made is whether the last effect comes about, and only its caller does not learn
	// of it.
	made bool
	// seen are the effects so far.
	seen []string
	dead bool
	// onDeath is called at that moment.
	onDeath func()
	// onEffect, unless it is nil, is called before and after each effect.
	onEffect func()
}

const never = 1 << 30

func (k *killer) effect(name string, make func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		return errKilled
	}
	k.seen = append(k.seen, name)
	if k.onEffect != nil {
		k.onEffect()
		defer k.onEffect()
	}
	if k.left--; k.left >= 0 && name != k.at {
		return make()
	}
	k.dead = true
	if k.made {
		_ = make() // the dead do not learn how it went
	}
	k.onDeath()
	return errKilled
}

// world is a host: what is on it stays when a process dies.
type world struct {
	t *testing.T
	// ctx is that of the operations.
	ctx context.Context
	// Engine is the process that runs.
	*Engine
	config     Config
	exec       *fakeExec
	namespaces *fakeNamespaces
	killer     *killer
	filter     *fakeFilter
	// firstMAC is the one that an interface is made with, before later plugins give it that of the result; empty: they do not.
	firstMAC string

	mu sync.Mutex
	// objects are what plugins made outside of namespaces: by plugin, container ID
	// and interface.
	objects map[string]bool
	// chains are those of fakeInProcess.
	chains map[*plugin.Changes]*fakeChain
	// wrong are calls that no engine may make.
	wrong []string
	// failing are calls that fail, such as "DEL bridge eth0".
	failing map[string]error
	// calls counts those of plugins.
	calls int
	// onCall, unless it is nil, is called for each of them; before it has an effect,
	// and after that.
	onCall func(number int, done bool)
}

// installation is the configuration and the plugins of a host, which no engine
// changes.
type installation struct {
	confDir, pluginDir string
	// inProcess is whether networks are executed in the engine's process.
	inProcess bool
}

// install makes five networks. Attachments to the last two are made and removed in line,
// because both may set a default route.
func install(t *testing.T) installation {
	t.Helper()
	m := newMemory(t, nil)
	m.network(t, "web", `{"type": "bridge", "dns": {"nameservers": ["10.0.0.1"]}}`, "portmap")
	m.network(t, "storage", `{"type": "macvlan", "args": {"gateway": "10.0.0.254"}, "dns": {"nameservers": ["10.0.0.2"]}}`, `{"type": "tuning", "sysctl": {"net.ipv4.tcp_syncookies": "1"}}`)
	m.edit(t, "storage", `"plugins"`, `"allocnet": {"routing": "source"}, "plugins"`)
	m.network(t, "backup", `{"type": "ipvlan", "dns": {"nameservers": ["10.0.0.3"]}}`, `{"type": "tuning", "sysctl": {"net.ipv4.tcp_syncookies": "2"}}`)
	m.edit(t, "backup", `"plugins"`, `"allocnet": {"ipv6": "off"}, "plugins"`)
	m.network(t, "first", `{"type": "bridge", "isDefaultGateway": true}`, "portmap")
	m.network(t, "second", `{"type": "macvlan", "isDefaultGateway": true}`, "tuning")
	return installation{confDir: m.confDir, pluginDir: m.env.Config.PluginDirs[0]}
}

// pluginsOf are those of the networks.
var pluginsOf = map[string][]string{
	"web": {"bridge", "portmap"}, "storage": {"macvlan", "tuning"}, "backup": {"ipvlan", "tuning"},
	"first": {"bridge", "portmap"}, "second": {"macvlan", "tuning"},
}

// newWorld returns a host with a runtime's namespace, which has a default route.
func newWorld(t *testing.T, i installation) *world {
	t.Helper()
	w := &world{t: t, ctx: t.Context(), objects: map[string]bool{}, failing: map[string]error{}, chains: map[*plugin.Changes]*fakeChain{}}
	namespaces, dir := &fakeNamespaces{at: map[string]*fakeNamespace{}}, t.TempDir()
	w.filter = newFakeFilter()
	w.filter.effect = func(name string, change func() error) error { return w.killer.effect(name, change) }
	w.exec, w.namespaces = &fakeExec{namespaces: namespaces, answer: w.plugin}, namespaces
	w.config = Config{
		ConfDirs: []string{i.confDir}, PluginDirs: []string{i.pluginDir}, PolicyFile: filepath.Join(dir, "no-policy"),
		StateDir: filepath.Join(dir, "state"), CacheDir: filepath.Join(dir, "cache"), NetnsDir: filepath.Join(dir, "netns"),
		ResolvConfDir: filepath.Join(dir, "etc"), HostResolvConf: []string{filepath.Join(dir, "no-resolv.conf")},
		Exec: w.exec, Namespaces: killedNamespaces{namespaces, w}, Host: &fakeHost{}, Cleaner: w,
		IsolationFile: filepath.Join(dir, "isolation.hcl"), Filter: w.filter,
	}
	if i.inProcess {
		w.config.InProcess, w.config.Executor = fakeInProcess{w}, ExecutorAuto
	}
	w.namespaces.add(w.namespaces.create(runtimeNetns), loopback)
	w.namespaces.at[runtimeNetns].routes = []netns.Route{runtimeRoute}
	w.restart()
	return w
}

const runtimeNetns = "/run/netns/runtime"

var runtimeRoute = netns.Route{Interface: "lo", Gateway: netip.MustParseAddr("192.0.2.1")}

// restart replaces the process by one that nothing kills.
func (w *world) restart() {
	w.t.Helper()
	engine, err := NewEngine(w.config)
	if err != nil {
		w.t.Fatal(err)
	}
	engine.env.Config.Pause = func(ctx context.Context, _ time.Duration) error { return context.Cause(ctx) }
	engine.leaks = noLeaks
	engine.env.Config.ChangeFile = func(op, _ string, change func() error) error { return w.killer.effect("resolv.conf "+op, change) }
	w.Engine = engine
	w.killer = &killer{left: never}
	engine.env.Store.Intercept(func(op, path string, change func() error) error {
		if op == "sync" { // there is no power cut here
			return nil
		}
		return w.killer.effect(op+" "+strings.TrimPrefix(path, w.config.StateDir+"/"), change)
	})
}

// killAt has the process die at its n-th effect from now.
func (w *world) killAt(n int, made bool) {
	w.killer.left, w.killer.made = n, made
	cache := w.results()
	w.killer.onDeath = func() {
		files := readFiles(w.t, cache)
		w.killer.onDeath = func() { writeFiles(w.t, cache, files) }
	}
}

// results is libcni's cache.
func (w *world) results() string { return filepath.Join(w.config.CacheDir, "results") }

// bury undoes what the dead process did to libcni's cache, to which it writes by
// itself.
func (w *world) bury() {
	if w.killer.dead {
		w.killer.onDeath()
	}
	w.restart()
}

func readFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	files := map[string]string{}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a call that the process had in flight removed it
		}
		if err != nil {
			t.Error(err)
		}
		files[entry.Name()] = string(data)
	}
	return files
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700))
	for name, text := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	if err != nil {
		t.Error(err)
	}
}

// plugin makes and removes objects, and ends with its context. DEL without a namespace
// reports success and leaves them, as those of firewall rules do.
func (w *world) plugin(ctx context.Context, c fakeCall) (bool, []byte, error) {
	var result []byte
	err := w.killer.effect(c.String(), func() (err error) {
		w.calls++
		w.notifyCall(false)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := w.failing[c.String()]; err != nil {
			return err
		}
		w.count(c)
		result, err = w.exec.succeed(c, w.calls)
		w.notifyCall(true)
		return errors.Join(err, context.Cause(ctx))
	})
	return true, result, err
}

func (w *world) notifyCall(done bool) {
	if w.onCall != nil {
		w.onCall(w.calls, done)
	}
}

func (w *world) count(c fakeCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	object := c.object()
	alive := w.namespaces.leads(c.Environ["CNI_NETNS"])
	switch {
	case c.Verb == "ADD" && w.objects[object]:
		w.wrong = append(w.wrong, "ADD of what was not deleted: "+object)
	case c.Verb == "ADD" && !alive:
		w.wrong = append(w.wrong, "ADD without a namespace: "+object)
	case c.Verb == "ADD":
		w.objects[object] = true
	case c.Verb == "DEL" && alive:
		delete(w.objects, object)
	}
}

// Clean removes what the suspects left, as package cleanup does, and ends with its context.
func (w *world) Clean(ctx context.Context, leftovers []state.Leftover) []error {
	errs := make([]error, len(leftovers))
	for i, l := range leftovers {
		if errs[i] = context.Cause(ctx); errs[i] != nil {
			continue
		}
		for _, s := range l.Suspects {
			errs[i] = errors.Join(errs[i], w.killer.effect("clean "+s.Attachment.Interface, func() error { return w.force(l.Allocation, s) }))
		}
	}
	return errs
}

func (w *world) force(of state.Allocation, s state.Suspect) error {
	a := s.Attachment
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.failing["clean "+a.Interface]; err != nil {
		return err
	}
	for object := range w.objects {
		if strings.HasSuffix(object, " "+a.ContainerID+" "+a.Interface) {
			delete(w.objects, object)
		}
	}
	if ns, err := state.OpenNamespace(of, w.namespaces.Open); err == nil {
		_ = ns.Close() // of fakes
		if !s.Replaced {
			w.namespaces.removeInterface(of.Netns, a.Interface)
		}
	}
	cached := fmt.Sprintf("%s-%s-%s", a.Network, a.ContainerID, a.Interface)
	if err := os.Remove(filepath.Join(w.config.CacheDir, "results", cached)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Left is nothing: the fake plugins remove what they make.
func (*world) Left(context.Context, state.Attachment, string) error { return nil }

// Covers: of the plugins of this host the cleaner knows all but ipvlan.
func (w *world) Covers(a state.Attachment) bool { return a.Network != "backup" }

// killedNamespaces are namespaces that only a living process changes.
type killedNamespaces struct {
	*fakeNamespaces
	world *world
}

// New has no effect: what is not pinned ends with the process.
func (n killedNamespaces) New() (kernel.Namespace, error) {
	ns, err := n.fakeNamespaces.New()
	if err != nil {
		return nil, err
	}
	return killedNamespace{ns.(*fakeNamespace), n.world}, nil
}

func (n killedNamespaces) Remove(path string) error {
	return n.world.killer.effect("remove namespace", func() error { return n.fakeNamespaces.Remove(path) })
}

func (n killedNamespaces) Open(path string) (kernel.Namespace, error) {
	ns, err := n.fakeNamespaces.Open(path)
	if err != nil {
		return nil, err
	}
	return killedNamespace{ns.(*fakeNamespace), n.world}, nil
}

type killedNamespace struct {
	*fakeNamespace
	world *world
}

func (n killedNamespace) Mount(dir, name string) (path string, err error) {
	err = n.world.killer.effect("pin namespace", func() (err error) {
		path, err = n.fakeNamespace.Mount(dir, name)
		return err
	})
	return path, err
}

func (n killedNamespace) SetLoopbackUp() error {
	return n.world.killer.effect("lo up", n.fakeNamespace.SetLoopbackUp)
}

func (n killedNamespace) SetAcceptRA(iface string, accept bool) error {
	return n.world.killer.effect("accept_ra of "+iface, func() error { return n.fakeNamespace.SetAcceptRA(iface, accept) })
}

func (n killedNamespace) RestoreAcceptRA(iface string, accept bool) error {
	return n.world.killer.effect("accept_ra of "+iface, func() error { return n.fakeNamespace.RestoreAcceptRA(iface, accept) })
}

func (n killedNamespace) SetParameter(path, value string) error {
	return n.world.killer.effect("set "+path, func() error { return n.fakeNamespace.SetParameter(path, value) })
}

func (n killedNamespace) SwitchIPv6Off(iface string) error {
	return n.world.killer.effect("IPv6 off on "+iface, func() error { return n.fakeNamespace.SwitchIPv6Off(iface) })
}

func (n killedNamespace) SuspendIPv6() error {
	return n.world.killer.effect("suspend IPv6", n.fakeNamespace.SuspendIPv6)
}

func (n killedNamespace) ResumeIPv6() error {
	return n.world.killer.effect("resume IPv6", n.fakeNamespace.ResumeIPv6)
}

func (n killedNamespace) AddSourceRoutes(s netns.SourceRoutes) error {
	return n.world.killer.effect("add source routes", func() error { return n.fakeNamespace.AddSourceRoutes(s) })
}

func (n killedNamespace) RemoveSourceRoutes(s netns.SourceRoutes) error {
	return n.world.killer.effect("remove source routes", func() error { return n.fakeNamespace.RemoveSourceRoutes(s) })
}

func (n killedNamespace) AddDefaultRoute(gateway netip.Addr, iface string) error {
	return n.world.killer.effect("default route", func() error { return n.fakeNamespace.AddDefaultRoute(gateway, iface) })
}

func (n killedNamespace) SetDefaultRoute(gateway netip.Addr, iface string) error {
	return n.world.killer.effect("default route", func() error { return n.fakeNamespace.SetDefaultRoute(gateway, iface) })
}

func (n killedNamespace) RemoveDefaultRoutes(iface string, v6 bool) error {
	return n.world.killer.effect("remove default routes", func() error { return n.fakeNamespace.RemoveDefaultRoutes(iface, v6) })
}

// lose removes a namespace with all that is in it, as the end of its last process
// does.
func (w *world) lose(path string) {
	if err := w.namespaces.Remove(path); err != nil {
		w.t.Fatal(err)
	}
}

// wantRecorded: the host has what is on record, and nothing else; all that is
// recorded is complete.
func (w *world) wantRecorded() {
	w.t.Helper()
	want := map[string]bool{}
	for r, err := range w.env.Store.List(w.t.Context()) {
		if err != nil || len(r.Damaged) > 0 {
			w.t.Errorf("recorded is %+v, %v", r, err)
		}
		for _, a := range r.Attachments {
			if !onrecord.IsComplete(a) {
				w.t.Errorf("%s is %s", a.Interface, a.Phase)
			}
			for _, plugin := range pluginsOf[a.Network] {
				want[plugin+" "+a.ContainerID+" "+a.Interface] = true
			}
		}
	}
	w.wantResolvConfs()
	w.wantParameters()
	w.wantApart()
	for path, ns := range w.namespaces.at {
		if ns.suspended {
			w.t.Errorf("new interfaces in %s have no IPv6", path)
		}
	}
	for object := range want {
		if !w.objects[object] {
			w.t.Errorf("%s is recorded and not there", object)
		}
	}
	for object := range w.objects {
		if !want[object] {
			w.t.Errorf("%s is there and not recorded", object)
		}
	}
	if len(w.wrong) > 0 {
		w.t.Errorf("plugins were called for: %v", w.wrong)
	}
}

// wantParameters: a parameter that several networks set is as the last one that is attached has it.
func (w *world) wantParameters() {
	w.t.Helper()
	for r := range w.env.Store.List(w.t.Context()) {
		want, last := "", -1
		for _, a := range r.Attachments {
			if value := map[string]string{"storage": "1", "backup": "2"}[a.Network]; value != "" && a.Index > last {
				want, last = syncookies+"="+value, a.Index
			}
		}
		ns := w.namespaces.at[r.Allocation.Netns]
		if ns == nil || want == "" {
			continue
		}
		if len(ns.parameters) == 0 || ns.parameters[len(ns.parameters)-1] != want {
			w.t.Errorf("allocation %s has set the parameters %v, want %s last", r.Allocation.ID, ns.parameters, want)
		}
	}
}

// wantResolvConfs: namespaces that the engine made have a resolv.conf with the servers of
// what is attached, and others have none.
func (w *world) wantResolvConfs() {
	w.t.Helper()
	files := map[string]bool{}
	for a, err := range w.List(w.t.Context()) {
		if err != nil || a.ResolvConf == "" {
			continue
		}
		files[a.ID] = true
		data, err := os.ReadFile(a.ResolvConf)
		var servers []string
		for line := range strings.Lines(string(data)) {
			if server, found := strings.CutPrefix(line, "nameserver "); found {
				servers = append(servers, strings.TrimSpace(server))
			}
		}
		if err != nil || !slices.Equal(servers, a.DNS.Servers) {
			w.t.Errorf("resolv.conf has the servers %v, want %v: %v", servers, a.DNS.Servers, err)
		}
	}
	entries, err := os.ReadDir(w.config.ResolvConfDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Error(err)
	}
	for _, entry := range entries {
		if !files[entry.Name()] {
			w.t.Errorf("resolv.conf of %s is left", entry.Name())
		}
	}
}

// wantWhole: each batch on record has all attachments of its request. All requests have
// two.
func (w *world) wantWhole() {
	w.t.Helper()
	for r := range w.env.Store.List(w.t.Context()) {
		interfaces := map[state.Batch][]string{}
		for _, a := range r.Attachments {
			interfaces[a.Batch] = append(interfaces[a.Batch], a.Interface)
		}
		for batch, got := range interfaces {
			if len(got) != 2 {
				w.t.Errorf("allocation %s has %v of a batch of kind %s with 2 attachments", r.Allocation.ID, got, batch.Kind)
			}
		}
	}
}

// wantNothing: nothing is left on the host, and the runtime's namespace is as it was.
func (w *world) wantNothing() {
	w.t.Helper()
	if err := w.env.Store.RemoveStale(); err != nil {
		w.t.Error(err)
	}
	if inForce, err := w.env.Store.Isolation().InForce(); err != nil || inForce != nil { // the next call does what a killed one did not
		if err := errors.Join(err, collect(w)); err != nil {
			w.t.Error(err)
		}
	}
	w.wantRecorded()
	if ids := recorded(w.t, w.Engine); len(ids) > 0 {
		w.t.Errorf("on record are %v", ids)
	}
	if left := readFiles(w.t, w.results()); len(left) > 0 {
		w.t.Errorf("libcni's cache has %v", left)
	}
	for path := range w.namespaces.at {
		if path != runtimeNetns {
			w.t.Errorf("namespace %s is left", path)
		}
	}
	for _, dir := range []string{"locks", "pending", "ports", "allocations", "isolation"} {
		if left := readDir(w.t, filepath.Join(w.config.StateDir, dir)); len(left) > 0 {
			w.t.Errorf("%s has %v", dir, left)
		}
	}
	if !w.namespaces.Exists(runtimeNetns) {
		return
	}
	if left, ok := w.filter.inside[w.namespaces.at[runtimeNetns].id]; ok {
		w.t.Errorf("the runtime's namespace keeps apart %+v", left.Own)
	}
	if got := w.namespaces.interfaces(runtimeNetns); !slices.Equal(got, []string{"lo"}) {
		w.t.Errorf("the runtime's namespace has %v", got)
	}
	if got := w.namespaces.at[runtimeNetns].routes; !slices.Equal(got, []netns.Route{runtimeRoute}) {
		w.t.Errorf("the runtime's namespace has the default routes %v", got)
	}
	if got := w.namespaces.at[runtimeNetns].sources; len(got) > 0 {
		w.t.Errorf("the runtime's namespace has the routing tables %v", got)
	}
}

func readDir(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// Requests of the tests of kills.
var (
	ownRequest = Request{
		ID: "own", DNS: MergedDNS, Primary: &selection.Element{Name: "web", Interface: "eth0"}, Networks: []selection.Element{{Name: "storage"}},
	}
	runtimeRequest = Request{
		ID: "runtime", Netns: runtimeNetns,
		Networks: []selection.Element{{Name: "web"}, {Name: "storage", DefaultRoute: []string{"10.0.0.254"}}},
	}
	extendRequest = Request{
		ID: "own", Networks: []selection.Element{{Name: "web"}, {Name: "backup", DefaultRoute: []string{"10.0.0.253"}}},
	}
	taskRequest = Request{
		ID: "task", Netns: runtimeNetns, Task: "t1", Networks: []selection.Element{{Name: "storage", DefaultRoute: []string{"10.0.0.252"}}, {Name: "backup"}},
	}
)

// Requests whose attachments are made and removed in line.
var (
	inLine            = []selection.Element{{Name: "first"}, {Name: "second"}}
	ownInLine         = Request{ID: "own", DNS: MergedDNS, Networks: inLine}
	inLineRequest     = Request{ID: "runtime", Netns: runtimeNetns, Networks: inLine}
	taskInLine        = Request{ID: "task", Netns: runtimeNetns, Task: "t1", Networks: inLine}
	furtherInLine     = Request{ID: "own", Networks: []selection.Element{{Name: "first", Interface: "further1"}, {Name: "second", Interface: "further2"}}}
	ownAndFurtherLine = inTurn(setup(ownInLine), extend(furtherInLine))
)

// killable is an operation during which a process dies.
type killable struct {
	// find makes what the operation finds. Nil: nothing.
	find func(w *world) error
	call func(w *world) error
	// again is the request that a runtime makes after a restart. Nil: those of attach, which have to do more.
	again func(w *world) error
	// attach has the requests that attached what the call attaches or removes. Nil: the
	// call removes a part of a request.
	attach func(w *world) error
	// id is the allocation's.
	id string
	// undone is whether nothing is left of the call when it fails.
	undone bool
}

// repeat makes the request that a runtime makes after a restart.
func (k killable) repeat(w *world) error {
	if k.again == nil {
		return k.attach(w)
	}
	return k.again(w)
}

func setup(r Request) func(*world) error {
	return func(w *world) error {
		_, err := w.Setup(w.ctx, r)
		return err
	}
}

func extend(r Request) func(*world) error {
	return func(w *world) error {
		_, err := w.Extend(w.ctx, r)
		return err
	}
}

func teardown(id string) func(*world) error {
	return func(w *world) error { return w.Teardown(w.ctx, id) }
}

func release(w *world) error { return w.Release(w.ctx, "task", "t1") }

// failing is a call during which other calls fail.
func failing(call func(*world) error, failing ...string) func(*world) error {
	return func(w *world) error {
		for _, name := range failing {
			w.failing[name] = errStuck
		}
		err := call(w)
		clear(w.failing)
		if errors.Is(err, errStuck) {
			return nil
		}
		return err
	}
}

func inTurn(calls ...func(*world) error) func(*world) error {
	return func(w *world) error {
		for _, call := range calls {
			if err := call(w); err != nil {
				return err
			}
		}
		return nil
	}
}

// reboot loses all namespaces, and has what is recorded be of an earlier boot.
func reboot(w *world) error {
	for _, id := range recorded(w.t, w.Engine) {
		l, err := w.env.Store.Lock(w.ctx, id)
		if err != nil {
			return err
		}
		r, err := l.Load()
		if err != nil {
			return err
		}
		r.Allocation.BootID = "earlier"
		if err := l.Begin(r.Allocation, nil); err != nil {
			return err
		}
		l.Unlock()
		w.lose(r.Allocation.Netns)
	}
	clear(w.filter.guards) // the kernel's tables are gone, and what is in force is of the earlier boot
	clear(w.filter.members)
	clear(w.filter.inside)
	return errors.Join(w.env.Store.Isolation().SetInForce(nil, nil), os.Remove(filepath.Join(w.config.StateDir, "boot")))
}

var killables = map[string]killable{
	"Setup": {call: setup(ownRequest), attach: setup(ownRequest), id: "own", undone: true},
	"Setup, runtime's namespace": {
		call: setup(runtimeRequest), attach: setup(runtimeRequest), id: "runtime", undone: true,
	},
	"Setup, in line, that fails": {
		call: failing(setup(inLineRequest), "ADD tuning net2"), attach: setup(inLineRequest), id: "runtime",
	},
	"Setup after the namespace was lost": {
		find: inTurn(setup(ownRequest), func(w *world) error { w.lose(filepath.Join(w.config.NetnsDir, "own")); return nil }),
		call: setup(ownRequest), attach: setup(ownRequest), id: "own",
	},
	"Extend": {
		find: setup(ownRequest), call: extend(extendRequest), again: extend(extendRequest),
		attach: inTurn(setup(ownRequest), extend(extendRequest)), id: "own", undone: true,
	},
	"Extend for a task": {
		call: extend(taskRequest), attach: extend(taskRequest), id: "task", undone: true,
	},
	"Extend, in line, that fails": {
		find: setup(ownInLine), call: failing(extend(furtherInLine), "ADD tuning further2"), again: extend(furtherInLine),
		attach: ownAndFurtherLine, id: "own",
	},
	"Detach": {
		find: inTurn(setup(ownRequest), extend(extendRequest)),
		call: func(w *world) error { return w.Detach(w.ctx, "own", "net3") },
		again: func(w *world) error {
			err := w.Detach(w.ctx, "own", "net3")
			var gone *NotAttachedError
			if errors.As(err, &gone) {
				return nil
			}
			return err
		},
		id: "own",
	},
	"Release": {
		find: extend(taskRequest), call: release, again: release, attach: extend(taskRequest), id: "task",
	},
	"Release, in line": {
		find: extend(taskInLine), call: release, again: release, attach: extend(taskInLine), id: "task",
	},
	"Release with forced cleanup": {
		find: extend(taskRequest), call: failing(release, "DEL macvlan net1"), again: release, attach: extend(taskRequest), id: "task",
	},
	"Release that fails": {
		find: extend(taskRequest), call: failing(release, "DEL ipvlan net2", "clean net2"), again: release,
		attach: extend(taskRequest), id: "task",
	},
	"Teardown, runtime's namespace, that fails": {
		find: setup(runtimeRequest), call: failing(teardown("runtime"), "DEL bridge net1", "clean net1"), again: teardown("runtime"),
		attach: setup(runtimeRequest), id: "runtime",
	},
	"Teardown": {
		find: inTurn(setup(ownRequest), extend(extendRequest)), attach: inTurn(setup(ownRequest), extend(extendRequest)),
		call: teardown("own"), again: teardown("own"), id: "own",
	},
	"Teardown that fails": {
		find: inTurn(setup(ownRequest), extend(extendRequest)), attach: inTurn(setup(ownRequest), extend(extendRequest)),
		call: teardownThatFails, again: teardown("own"), id: "own",
	},
	"Teardown, runtime's namespace": {
		find: setup(runtimeRequest), call: teardown("runtime"), again: teardown("runtime"), attach: setup(runtimeRequest), id: "runtime",
	},
	"Teardown, in line": {
		find: ownAndFurtherLine, call: teardown("own"), again: teardown("own"), attach: ownAndFurtherLine, id: "own",
	},
	"Teardown, runtime's namespace, in line": {
		find: setup(inLineRequest), call: teardown("runtime"), again: teardown("runtime"), attach: setup(inLineRequest), id: "runtime",
	},
	"GC of an interrupted Extend": {
		find: inTurn(ownAndFurtherLine, interrupted("own", "further2")),
		call: collect, again: collect, attach: ownAndFurtherLine, id: "own",
	},
	"the first Setup of a boot": {
		find: inTurn(setup(ownRequest), reboot), call: setup(runtimeRequest), again: setup(runtimeRequest), id: "runtime",
	},
	"the first Setup of a boot, unknown plugins": {
		find: inTurn(setup(ownRequest), extend(extendRequest), reboot),
		call: inTurn(setup(runtimeRequest), func(w *world) error { return w.RetryPending(w.ctx) }),
		again: func(w *world) error {
			return errors.Join(w.RetryPending(w.ctx), setup(runtimeRequest)(w))
		},
		id: "runtime",
	},
	"GC": {
		find: inTurn(setup(ownRequest), extend(extendRequest), func(w *world) error {
			w.lose(filepath.Join(w.config.NetnsDir, "own"))
			return nil
		}),
		call: collect, again: collect, id: "own",
	},
}

func collect(w *world) error {
	_, err := w.GC(w.ctx, GCRequest{})
	return err
}

// effects returns those of the operation, when nothing kills it.
func (k killable) effects(t *testing.T, i installation) []string {
	t.Helper()
	w := k.world(t, i)
	before := len(w.killer.seen)
	if err := k.call(w); err != nil {
		t.Fatal(err)
	}
	return w.killer.seen[before:]
}

func (k killable) world(t *testing.T, i installation) *world {
	t.Helper()
	w := newWorld(t, i)
	if k.find != nil {
		if err := k.find(w); err != nil {
			t.Fatal(err)
		}
	}
	w.restart()
	return w
}

// afterKill is how a host goes on after a process died.
var afterKill = map[string]func(t *testing.T, w *world, k killable){
	"the same request": func(t *testing.T, w *world, k killable) {
		if err := k.again(w); err != nil {
			t.Error(err)
		}
		w.wantRecorded()
	},
	"the requests that attached it": func(t *testing.T, w *world, k killable) {
		if err := k.attach(w); err != nil {
			t.Error(err)
		}
		w.wantRecorded()
		w.wantWhole()
		if ids := recorded(t, w.Engine); !slices.Contains(ids, k.id) {
			t.Errorf("on record are %v, want %s", ids, k.id)
		}
	},
	"GC": func(t *testing.T, w *world, k killable) {
		if err := collect(w); err != nil {
			t.Error(err)
		}
		w.wantRecorded()
		if k.attach != nil {
			w.wantWhole()
		}
	},
	"Teardown": func(t *testing.T, w *world, k killable) {
		if err := w.Teardown(t.Context(), k.id); err != nil {
			t.Error(err)
		}
	},
	"GC without the namespaces": func(t *testing.T, w *world, _ killable) {
		for path := range w.namespaces.at {
			w.lose(path)
		}
		if err := collect(w); err != nil {
			t.Error(err)
		}
		w.wantNothing()
	},
}

// TestKilledAtEveryEffect: wherever a process dies, the next one finds what it did,
// completes it or removes it.
func TestKilledAtEveryEffect(t *testing.T) {
	killAll(t, install(t), killables)
}

func killAll(t *testing.T, i installation, killables map[string]killable) {
	t.Helper()
	for name, k := range killables {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, ways := k.world(t, i), map[string]func(t *testing.T){}
			for after, recover := range afterKill {
				if after == "the requests that attached it" && k.attach == nil || after == "the same request" && k.again == nil {
					continue
				}
				ways[after] = func(t *testing.T) { k.recover(t, w, recover) }
			}
			dieAtEach(t, w, k.call, ways)
		})
	}
}

// isRecorded tells whether an effect is a change of the state directory, and not of
// the host.
func isRecorded(effect string) bool {
	_, path, _ := strings.Cut(effect, " ")
	dir, _, _ := strings.Cut(path, "/")
	return slices.Contains([]string{"allocations", "locks", "pending", "ports", "boot", ".boot", "isolation"}, dir)
}

func (k killable) dieAndRecover(t *testing.T, w *world, recover func(*testing.T, *world, killable)) {
	t.Helper()
	_ = k.call(w) // a dead process returns nothing
	w.bury()
	k.recover(t, w, recover)
}

// recover goes on with the host that a dead process left, until nothing is on it.
func (k killable) recover(t *testing.T, w *world, recover func(*testing.T, *world, killable)) {
	t.Helper()
	recover(t, w, k)
	for _, id := range recorded(t, w.Engine) {
		if err := w.Teardown(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	w.wantNothing()
}
