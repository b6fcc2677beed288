// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/inprocess/rules"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// fakeInProcess executes all networks in the process of a world. Interfaces are made at
// once; objects, and all removals, wait for Commit.
type fakeInProcess struct{ world *world }

func (fakeInProcess) Supports(*libcni.NetworkConfigList, []string) error { return nil }

func (f fakeInProcess) Chain(a state.Attachment, r *remedy.Repair, seams plugin.Seams) config.Chain {
	c := &fakeChain{apart: seams.Isolation, repair: r, iptables: a.IPTables, ipv6Off: a.IPv6Off, fakeExec: f.world.exec, world: f.world, changes: &plugin.Changes{}}
	f.world.mu.Lock()
	defer f.world.mu.Unlock()
	f.world.chains[c.changes] = c
	return c
}

// Commit makes the changes of each chain in one effect.
func (f fakeInProcess) Commit(ctx context.Context, _ *os.File, changes []*plugin.Changes) []error {
	errs := make([]error, len(changes))
	for i, c := range changes {
		f.world.mu.Lock()
		chain := f.world.chains[c]
		f.world.mu.Unlock()
		if errs[i] = chain.commit(); errs[i] == nil {
			errs[i] = chain.unlink(ctx)
		}
	}
	return errs
}

// CommitMissing adds nothing: fakeChain has no rules.
func (fakeInProcess) CommitMissing(context.Context, []*os.File, []*plugin.Changes) {}

// ListRules has what CHECK of the chain finds missing for a rule that is not there.
func (f fakeInProcess) ListRules(_ context.Context, changes *plugin.Changes) ([]rules.Listed, error) {
	f.world.mu.Lock()
	defer f.world.mu.Unlock()
	var list []rules.Listed
	for _, what := range f.world.chains[changes].repair.Missing {
		list = append(list, rules.Listed{Program: "iptables", Table: "nat", Chain: "POSTROUTING", Text: what})
	}
	return list, nil
}

type fakeChain struct {
	iptables string
	ipv6Off  bool
	*fakeExec
	world   *world
	changes *plugin.Changes
	// calls are those that are to be committed.
	calls []fakeCall
	// repair is what CHECK repairs; nil: it only looks.
	repair *remedy.Repair
	// apart keeps the attachment apart; nil: nothing does.
	apart *plugin.Isolation
}

func (c *fakeChain) Changes() *plugin.Changes { return c.changes }

func (c *fakeChain) ExecPlugin(ctx context.Context, path string, stdin []byte, environ []string) (result []byte, err error) {
	call := newFakeCall(path, stdin, environ)
	err = c.world.killer.effect(call.String(), func() (err error) {
		c.world.calls++
		c.world.notifyCall(false)
		if err := errors.Join(c.world.failing[call.String()], context.Cause(ctx)); err != nil {
			return c.repaired(call, err)
		}
		if gone := !slices.Contains(c.world.namespaces.interfaces(call.Environ["CNI_NETNS"]), call.Environ["CNI_IFNAME"]); gone && c.repair != nil {
			c.repair.Unrepairable = []string{"interface " + call.Environ["CNI_IFNAME"]}
		}
		if call.Verb == "ADD" || call.Verb == "DEL" {
			c.calls = append(c.calls, call)
		}
		if call.Verb != "DEL" {
			result, err = c.succeed(call, c.world.calls)
		}
		if ns := c.world.namespaces.at[call.Environ["CNI_NETNS"]]; c.ipv6Off && ns != nil && call.Verb == "ADD" {
			err = errors.Join(err, ns.SwitchIPv6Off(call.Environ["CNI_IFNAME"]))
		}
		return err
	})
	if err == nil {
		err = c.keepApart(call, result)
	}
	return result, err
}

// repaired notes what CHECK fails for as missing, if the chain repairs, and makes it.
func (c *fakeChain) repaired(call fakeCall, err error) error {
	if c.repair == nil {
		return err
	}
	c.repair.Missing = append(c.repair.Missing, err.Error())
	if !c.repair.DryRun {
		delete(c.world.failing, call.String())
	}
	return nil
}

func (c *fakeChain) commit() error {
	if len(c.calls) == 0 {
		return nil
	}
	iface := c.calls[0].Environ["CNI_IFNAME"]
	return c.world.killer.effect("commit "+c.calls[0].Verb+" "+iface, func() error {
		if err := c.world.failing["commit "+iface]; err != nil {
			return err
		}
		for _, call := range c.calls {
			c.world.requireResult(call)
			c.world.count(call)
			if call.Verb == "DEL" {
				c.world.namespaces.removeInterface(call.Environ["CNI_NETNS"], iface)
			}
		}
		return nil
	})
}

// TestKilledInProcess is TestKilledAtEveryEffect for networks that are executed in process.
func TestKilledInProcess(t *testing.T) {
	i := install(t)
	i.inProcess = true
	some := map[string]killable{
		"Setup whose commit fails": {
			call: failing(setup(runtimeRequest), "commit net2"), attach: setup(runtimeRequest), id: "runtime",
		},
		"Teardown whose commit fails": {
			find: setup(runtimeRequest), call: failing(teardown("runtime"), "commit net2", "clean net2"), again: teardown("runtime"),
			attach: setup(runtimeRequest), id: "runtime",
		},
	}
	for _, name := range []string{"Setup, runtime's namespace", "Extend", "Detach", "Release", "Teardown", "GC"} {
		some[name] = killables[name]
	}
	killAll(t, i, some)
}

// requireResult: DEL of what was made gets the result of ADD. Without it the firewall plugin
// removes nothing.
func (w *world) requireResult(call fakeCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	made := w.objects[call.object()]
	if call.Verb == "DEL" && made && !bytes.Contains(call.Stdin, []byte(`"prevResult"`)) {
		w.wrong = append(w.wrong, call.String()+" without the result of ADD")
	}
}

// TestKilledTwiceInProcess: before Setup has recorded the results, and in the teardown when
// libcni has removed them from its cache.
func TestKilledTwiceInProcess(t *testing.T) {
	i := install(t)
	i.inProcess = true
	w := newWorld(t, i)
	die := func(call func(*world) error, effect string, made bool) {
		w.killAt(never, made)
		w.killer.at = effect
		if err := call(w); !w.killer.dead {
			t.Fatalf("alive after %q: %v", w.killer.seen, err)
		}
		w.bury()
	}
	die(setup(runtimeRequest), "commit ADD net2", true)
	die(teardown("runtime"), "commit DEL net1", false)
	if err := w.Teardown(t.Context(), "runtime"); err != nil {
		t.Error(err)
	}
	w.wantNothing()
}

// TestExecutorIsRecorded: the record says what executed ADD, and one that is in process is
// complete before its rules are committed.
func TestExecutorIsRecorded(t *testing.T) {
	for name, test := range map[string]struct {
		executor string
		want     state.Executor
	}{"auto": {ExecutorAuto, state.InProcess}, "plugins": {ExecutorPlugins, state.Plugins}} {
		t.Run(name, func(t *testing.T) {
			i := install(t)
			i.inProcess = true
			w := newWorld(t, i)
			w.config.Executor = test.executor
			w.restart()
			if err := setup(ownRequest)(w); err != nil {
				t.Fatal(err)
			}
			r, err := w.env.Store.Read("own")
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range r.Attachments {
				if a.Executor != test.want {
					t.Errorf("%s was executed by %q, want %q", a.Interface, a.Executor, test.want)
				}
			}
			commits := slices.ContainsFunc(w.killer.seen, func(effect string) bool { return effect == "commit ADD eth0" })
			if commits != (test.want == state.InProcess) {
				t.Errorf("effects %q", w.killer.seen)
			}
		})
	}
}

// TestReplacesPlugins: ADD executes what was chosen. What executes the other verbs stands in
// for plugins that are not installed any more.
func TestReplacesPlugins(t *testing.T) {
	i := install(t)
	installed, empty := i.pluginDir, t.TempDir()
	i.inProcess, i.pluginDir = true, empty // those of the record come first
	w := newWorld(t, i)
	for _, test := range []struct {
		executor  state.Executor
		dir       string
		adding    bool
		inProcess bool
	}{
		{state.InProcess, installed, true, true},
		{state.InProcess, empty, true, true},
		{state.InProcess, installed, false, true},
		{state.InProcess, empty, false, true},
		{state.Plugins, installed, true, false},
		{state.Plugins, empty, true, false},
		{state.Plugins, installed, false, false},
		{state.Plugins, empty, false, true},
	} {
		o, err := w.env.Begin(t.Context(), "own")
		if err != nil {
			t.Fatal(err)
		}
		list, err := libcni.NetworkConfFromBytes([]byte(`{"cniVersion": "1.0.0", "name": "web", "plugins": [{"type": "bridge"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		var adding *operation.Adding
		if test.adding {
			adding = &operation.Adding{}
		}
		_, changes := o.Exec(state.Attachment{Executor: test.executor, PluginDirs: []string{test.dir}}, list, adding)
		if (changes != nil) != test.inProcess {
			t.Errorf("%+v: in process is %t", test, changes != nil)
		}
		o.End()
	}
}

// unsupportive is an executor that supports no network any more.
type unsupportive struct{ fakeInProcess }

func (unsupportive) Supports(*libcni.NetworkConfigList, []string) error {
	return errors.New("firewalld is installed")
}

// TestExecutorOnRecord: what was attached in process is removed in process also when the host has
// changed so that the network would not be attached in process any more.
func TestExecutorOnRecord(t *testing.T) {
	i := install(t)
	i.inProcess = true
	w := newWorld(t, i)
	if err := setup(ownRequest)(w); err != nil {
		t.Fatal(err)
	}
	w.config.InProcess = unsupportive{fakeInProcess{w}}
	w.restart()
	if err := teardown("own")(w); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(w.killer.seen, "commit DEL eth0") || slices.Contains(w.killer.seen, "clean eth0") {
		t.Errorf("effects %q", w.killer.seen)
	}
	w.wantNothing()
}

// TestReplacedPluginsAreCleanedUp: plugins that are not installed any more may have been of
// another version, and have made other rules than DEL in process removes.
func TestReplacedPluginsAreCleanedUp(t *testing.T) {
	i := install(t)
	i.inProcess = true
	w := newWorld(t, i)
	w.config.Executor = ExecutorPlugins
	w.restart()
	if err := setup(ownRequest)(w); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(i.pluginDir); err != nil {
		t.Fatal(err)
	}
	if err := teardown("own")(w); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(w.killer.seen, "commit DEL eth0") || !slices.Contains(w.killer.seen, "clean eth0") {
		t.Errorf("effects %q", w.killer.seen)
	}
	w.wantNothing()
}

// TestForgottenAtOnce: what a plugin has removed leaves the record while other DELs still run.
func TestForgottenAtOnce(t *testing.T) {
	m := newMemory(t, func(c *Config) { c.CallTimeout = 5 * time.Second }) // only a failure waits for it
	m.network(t, "web", "bridge")
	m.network(t, "storage", "macvlan")
	request := Request{ID: "w1", Primary: &selection.Element{Name: "web", Interface: "eth0"}, Networks: []selection.Element{{Name: "storage"}}}
	if _, err := m.Setup(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	m.exec.answer = func(ctx context.Context, c fakeCall) (bool, []byte, error) {
		for c.Verb == "DEL" && c.Plugin == "macvlan" {
			r, err := m.env.Store.Read("w1")
			if err != nil || len(r.Attachments) == 1 {
				return false, nil, err
			}
			if ctx.Err() != nil {
				return true, nil, errors.New("the other attachment is still on record")
			}
			time.Sleep(time.Millisecond)
		}
		return false, nil, nil
	}
	if err := m.Teardown(t.Context(), "w1"); err != nil {
		t.Error(err)
	}
}

// stuckInProcess is an executor whose commits never end by themselves.
type stuckInProcess struct{ fakeInProcess }

func (stuckInProcess) Commit(ctx context.Context, _ *os.File, changes []*plugin.Changes) []error {
	<-ctx.Done()
	return slices.Repeat([]error{errors.New("killed")}, len(changes))
}

// TestCommitHasADeadline: a commit ends at the deadline of a call, such as one that waits for
// the lock of iptables.
func TestCommitHasADeadline(t *testing.T) {
	i := install(t)
	i.inProcess = true
	w := newWorld(t, i)
	w.config.InProcess, w.config.CallTimeout = stuckInProcess{fakeInProcess{w}}, 20*time.Millisecond
	w.restart()
	err := setup(ownRequest)(w)
	if errdefs.Of(err) != errdefs.Timeout || !strings.Contains(err.Error(), "not changed within") {
		t.Errorf("got %v", err)
	}
}

// TestUnknownExecutor is refused.
func TestUnknownExecutor(t *testing.T) {
	_, err := NewEngine(Config{Executor: "native", StateDir: t.TempDir()})
	if err == nil || err.Error() != `executor "native": want "auto" or "plugins"` {
		t.Errorf("got %v", err)
	}
}

// TestGuardsHost: plugins that publish ports, or switch forwarding on, are executed behind what is done in process.
func TestGuardsHost(t *testing.T) {
	for name, test := range map[string]struct {
		plugin        string
		ports         []portmap.Port
		guarded, kept int32
	}{
		"bridge":     {`{"type": "bridge"}`, nil, 0, 0},
		"macvlan":    {`{"type": "macvlan"}`, nil, 0, 0},
		"a gateway":  {`{"type": "bridge", "isGateway": true}`, nil, 0, 1},
		"ptp":        {`{"type": "ptp"}`, nil, 0, 1},
		"with ports": {`{"type": "bridge", "capabilities": {"portMappings": true}}`, []portmap.Port{{Label: "http", HostPort: 80}}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t, nil)
			m.network(t, "n", test.plugin)
			if _, err := m.Setup(t.Context(), Request{ID: "w1", Primary: &selection.Element{Name: "n"}, Ports: test.ports}); err != nil {
				t.Fatal(err)
			}
			if guarded, kept := m.host.guarded.Load(), m.host.kept.Load(); guarded != test.guarded || kept != test.kept {
				t.Errorf("guarded %d, kept %d, want %d, %d", guarded, kept, test.guarded, test.kept)
			}
		})
	}
}
