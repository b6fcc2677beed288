// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook/internal/isolate"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
	"github.com/allocnet/allocnet/state"
)

// fakeFilter is what a host has to keep attachments apart, in memory.
type fakeFilter struct {
	// effect makes each change.
	effect func(name string, change func() error) error

	mu sync.Mutex
	// guards are ends by the IDs of attachments, and members those that are known.
	guards  map[string]string
	members map[string]filter.Member
	rules   isolation.Rules
	// inside is what namespaces have, by their IDs.
	inside map[string]filter.Inside
	// refuses is the ID of a namespace whose task keeps others from its tables.
	refuses string
	// applied counts calls of Apply.
	applied int
	// ended are the attachments on other hosts whose flows a Change has ended, with their jobs.
	ended []string
}

func newFakeFilter() *fakeFilter {
	return &fakeFilter{
		effect: func(_ string, change func() error) error { return change() },
		guards: map[string]string{}, members: map[string]filter.Member{}, inside: map[string]filter.Inside{},
	}
}

func (f *fakeFilter) change(name string, change func() error) error {
	return f.effect(name, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		return change()
	})
}

func (f *fakeFilter) Guard(_ context.Context, id, end, _ string) error {
	return f.change("guard "+id, func() error { f.guards[id] = end; return nil })
}

func (f *fakeFilter) Add(_ context.Context, _ filter.Rules, m filter.Member) error {
	return f.change("admit "+m.ID, func() error { f.add(m); return nil })
}

func (f *fakeFilter) Complete(ctx context.Context, _ filter.Rules, _ filter.Member, all filter.Source) error {
	return f.Apply(ctx, all)
}

// add has one that has no MAC yet be guarded.
func (f *fakeFilter) add(m filter.Member) {
	if m.Antispoof {
		f.guards[m.ID] = m.End
	}
	if m.MAC != nil || m.Via != "" {
		f.members[m.ID] = m
	}
}

func (f *fakeFilter) Change(ctx context.Context, _ isolation.Rules, before, now []filter.Member, all filter.Source) error {
	isOutdated := false
	err := f.change("change", func() error {
		in := func(all []filter.Member) func(filter.Member) bool { // as in the kernel, what stays is not looked at
			return func(m filter.Member) bool {
				return slices.ContainsFunc(all, func(o filter.Member) bool { return o.ID == m.ID && o.Job == m.Job && o.Via == m.Via })
			}
		}
		gone, made := slices.DeleteFunc(slices.Clone(before), in(now)), slices.DeleteFunc(slices.Clone(now), in(before))
		isOutdated = slices.ContainsFunc(gone, func(m filter.Member) bool { return f.members[m.ID].Job != m.Job })
		if isOutdated {
			return nil
		}
		for _, m := range gone {
			delete(f.members, m.ID)
		}
		for _, m := range made {
			f.add(m)
		}
		return nil
	})
	if err == nil && isOutdated {
		err = f.Apply(ctx, all)
	}
	if err == nil {
		err = f.change("end flows", func() error { f.end(before, now); return nil })
	}
	return err
}

func (f *fakeFilter) end(before, now []filter.Member) {
	for _, m := range before {
		if !slices.ContainsFunc(now, func(o filter.Member) bool { return o.ID == m.ID && o.Job == m.Job }) {
			f.ended = append(f.ended, m.ID+" "+m.Job)
		}
	}
}

func (f *fakeFilter) Remove(_ context.Context, _ filter.Rules, m filter.Member) error {
	return f.change("remove "+m.ID, func() error {
		delete(f.guards, m.ID)
		delete(f.members, m.ID)
		return nil
	})
}

func (f *fakeFilter) Apply(_ context.Context, all filter.Source) error {
	s, err := all()
	if err != nil {
		return err
	}
	return f.change("apply", func() error {
		clear(f.guards)
		clear(f.members)
		f.rules = s.Rules
		f.applied++
		for _, m := range s.Members {
			f.add(m)
		}
		return nil
	})
}

func (f *fakeFilter) Lacks(_ context.Context, s filter.State) (map[string][]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	lacks := map[string][]string{}
	for _, m := range s.Members {
		if f.members[m.ID].Level != m.Level {
			lacks[m.ID] = append(lacks[m.ID], "elements of "+m.ID)
		}
	}
	return lacks, nil
}

func (f *fakeFilter) Denied(context.Context) (map[string]isolation.Denied, error) { return nil, nil }

func idOf(ns filter.Namespace) string {
	identified, _ := ns.(interface{ ID() string })
	return identified.ID()
}

func (f *fakeFilter) ApplyInside(_ context.Context, ns filter.Namespace, s filter.Inside) error {
	return f.changeInside("apply inside", ns, func() { f.setInside(idOf(ns), s) })
}

func (f *fakeFilter) setInside(id string, s filter.Inside) {
	if f.inside[id] = s; len(s.Own) == 0 {
		delete(f.inside, id)
	}
}

func (f *fakeFilter) RemoveInside(_ context.Context, ns filter.Namespace, gone filter.Member) error {
	return f.changeInside("remove inside", ns, func() {
		s, isGone := f.inside[idOf(ns)], func(m filter.Member) bool { return m.ID == gone.ID }
		s.Own, s.Others = slices.DeleteFunc(slices.Clone(s.Own), isGone), slices.DeleteFunc(slices.Clone(s.Others), isGone)
		f.setInside(idOf(ns), s)
	})
}

func (f *fakeFilter) changeInside(name string, ns filter.Namespace, change func()) error {
	return f.change(name, func() error {
		if f.refuses == idOf(ns) {
			return unix.EPERM
		}
		change()
		return nil
	})
}

func (f *fakeFilter) LacksInside(_ context.Context, ns filter.Namespace, s filter.Inside) (map[string][]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuses == idOf(ns) {
		return nil, unix.EPERM
	}
	lacks := map[string][]string{}
	if !reflect.DeepEqual(f.inside[idOf(ns)], s) {
		for _, m := range s.Own {
			lacks[m.ID] = []string{"tables in its namespace"}
		}
	}
	return lacks, nil
}

func (f *fakeFilter) DeniedInside(context.Context, filter.Namespace) (map[string]isolation.Denied, error) {
	return map[string]isolation.Denied{}, nil
}

// ids are the attachments of which the host has anything.
func (f *fakeFilter) ids() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := maps.Clone(f.guards)
	for id := range f.members {
		all[id] = ""
	}
	return slices.Sorted(maps.Keys(all))
}

// keepApart is what a plugin that makes an interface does to keep it apart.
func (c *fakeChain) keepApart(call fakeCall, result []byte) error {
	if c.apart == nil || call.Verb != "ADD" || c.apart.Guard == nil || strings.Contains(string(call.Stdin), `"prevResult"`) {
		return nil
	}
	if err := c.apart.Guard("iso0"); err != nil {
		return err
	}
	parsed, err := onrecord.ParseResult(result)
	if err != nil {
		return err
	}
	parsed.Interfaces[0].Name = c.apart.End
	return (&plugin.Call{Isolation: c.apart}).Admit("iso0", cmp.Or(c.world.firstMAC, parsed.Interfaces[1].Mac), parsed)
}

// unlink does what follows the removal of links, and tells of links that nothing keeps apart any more.
func (c *fakeChain) unlink(ctx context.Context) error {
	for _, f := range c.changes.Unlinked {
		if err := f(ctx); err != nil {
			return err
		}
	}
	return nil
}

// isolated makes the network web of an installation one of a level.
func isolated(t *testing.T, level isolation.Level) installation {
	t.Helper()
	i := install(t)
	i.inProcess = true
	setLevel(t, i, level)
	return i
}

func setLevel(t *testing.T, i installation, level isolation.Level) {
	t.Helper()
	list := `{"cniVersion": "1.1.0", "name": "web", "allocnet": {"isolation": "` + string(level) + `"}, "plugins": [{"type": "bridge", "bridge": "iso0", "isGateway": true,
		"ipam": {"type": "static"}, "dns": {"nameservers": ["10.0.0.1"]}}, {"type": "portmap"}]}`
	if err := os.WriteFile(filepath.Join(i.confDir, "web.conflist"), []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
}

// wantApart: the host keeps apart what is on record, each with its addresses, and knows nothing else.
func (w *world) wantApart() {
	w.t.Helper()
	var want []string
	got := w.filter.ids()
	for r := range w.env.Store.List(w.t.Context()) {
		for _, a := range r.Attachments {
			if a.Isolation == nil { // it has joined those that are kept apart
				got = slices.DeleteFunc(got, func(id string) bool { return id == a.ContainerID })
				continue
			}
			if a.Isolation.Inside {
				w.wantApartInside(r.Allocation, a)
				continue
			}
			want = append(want, a.ContainerID)
			isLeft := a.Isolation.Narrowing == (allocation.Narrowing{})
			if m := w.filter.members[a.ContainerID]; m.IsNarrowed() == isLeft || m.End != a.Isolation.End || len(m.Addresses) != 1 || m.MAC.String() != a.Isolation.MAC || w.filter.guards[m.ID] != m.End {
				w.t.Errorf("the host knows %s as %+v, want it as recorded: %+v", a.ContainerID, m, *a.Isolation)
			}
		}
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.t.Errorf("the host keeps apart %v, want %v", got, want)
	}
}

// TestKilledIsolated is TestKilledAtEveryEffect for a network that is isolated.
func TestKilledIsolated(t *testing.T) {
	some := map[string]killable{}
	for _, name := range []string{
		"Setup, runtime's namespace", "Setup after the namespace was lost", "the first Setup of a boot", "Extend", "Detach", "Release", "Teardown", "Teardown, runtime's namespace, that fails", "GC",
	} {
		some[name] = killables[name]
	}
	killAll(t, isolated(t, isolation.Strict), some)
}

// TestIsolationIsRecordedFirst: where an attachment is is on record before the host gets anything for it.
func TestIsolationIsRecordedFirst(t *testing.T) {
	w := newWorld(t, isolated(t, isolation.Network))
	w.filter.effect = func(name string, change func() error) error {
		verb, id, _ := strings.Cut(name, " ")
		r, err := w.env.Store.Read("own")
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(r.Attachments, func(a state.Attachment) bool { return a.ContainerID == id })
		if verb != "apply" && (at < 0 || r.Attachments[at].Isolation == nil || r.Attachments[at].Isolation.End == "" || verb == "admit" && r.Attachments[at].Isolation.MAC == "") {
			t.Errorf("%s: on record is %+v", name, r.Attachments)
		}
		return change()
	}
	if err := setup(ownRequest)(w); err != nil {
		t.Fatal(err)
	}
	w.wantApart()
	if ids := w.filter.ids(); len(ids) != 1 {
		t.Errorf("the host keeps apart %v, want web alone", ids)
	}
}

// TestIsolationIsUndone: of an ADD that failed, and is tried again, the host has nothing when that is on record, also if it gets all on record anew meanwhile.
func TestIsolationIsUndone(t *testing.T) {
	w := newWorld(t, isolated(t, isolation.Strict))
	w.failing["ADD portmap eth0"] = transient
	undone := 0
	w.filter.effect = func(name string, change func() error) error {
		err := change()
		if name == "remove own" {
			undone++
			clear(w.failing)
			soon, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer stop()
			_ = isolate.Apply(soon, w.env) // it waits, or has what is on record
		}
		return err
	}
	ends := map[string]int{}
	w.onCall = func(int, bool) {
		if m, ok := w.filter.members["own"]; ok && w.killer.seen[len(w.killer.seen)-1] == "ADD bridge eth0" {
			ends[m.End]++
		}
	}
	if err := setup(ownRequest)(w); err != nil || undone == 0 {
		t.Fatalf("undone %d times: %v", undone, err)
	}
	w.wantApart()
	if len(ends) > 0 {
		t.Errorf("when ADD begins again the host has the ends %v", ends)
	}
}

// TestIsolationOfAnotherMAC: if a later plugin gives the interface another MAC, that one is admitted.
func TestIsolationOfAnotherMAC(t *testing.T) {
	w := newWorld(t, isolated(t, isolation.Strict))
	w.firstMAC = "02:00:00:00:00:fe"
	if err := setup(ownRequest)(w); err != nil {
		t.Fatal(err)
	}
	w.wantApart()
	if mac := w.filter.members["own"].MAC.String(); mac == w.firstMAC || !strings.HasPrefix(mac, "02:00:") {
		t.Errorf("admitted is the MAC %s, want that of the result", mac)
	}
}

// TestIsolationOutlastsTheLink: what keeps an attachment apart goes after its links, and before its addresses can be given out again.
func TestIsolationOutlastsTheLink(t *testing.T) {
	w := newWorld(t, isolated(t, isolation.Strict))
	if err := setup(runtimeRequest)(w); err != nil {
		t.Fatal(err)
	}
	removed := 0
	w.filter.effect = func(name string, change func() error) error {
		if strings.HasPrefix(name, "remove ") {
			removed++
			if left := w.namespaces.interfaces(runtimeNetns); slices.Contains(left, "net1") {
				t.Errorf("%s while the interfaces are %v", name, left)
			}
		}
		return change()
	}
	if err := teardown("runtime")(w); err != nil || removed != 1 {
		t.Errorf("%v, removed %d times, want once", err, removed)
	}
	w.wantNothing()
}

// TestIsolationRepaired: what the host lost it gets again, with the level that the network has by now, and a report changes nothing.
func TestIsolationRepaired(t *testing.T) {
	i := isolated(t, isolation.Network)
	w := newWorld(t, i)
	if err := setup(ownRequest)(w); err != nil {
		t.Fatal(err)
	}
	clear(w.filter.members)
	requireDrifts := func(mode RepairMode, missing int) {
		t.Helper()
		drifts, err := w.RepairAttachments(t.Context(), RepairRequest{Mode: mode})
		found := 0
		for _, d := range drifts {
			found += len(d.Missing)
			if d.Repaired != (mode == RepairRules) {
				t.Errorf("%s: %+v", mode, d)
			}
		}
		if err != nil || found != missing {
			t.Errorf("%s: %+v, %v, want %d missing", mode, drifts, err, missing)
		}
	}
	requireDrifts(RepairReport, 1)
	if len(w.filter.members) != 0 {
		t.Errorf("a report has made %v", w.filter.members)
	}
	requireDrifts(RepairRules, 1)
	w.wantApart()
	applied := w.filter.applied
	requireDrifts(RepairRules, 0)
	if w.filter.applied != applied {
		t.Error("all was made anew although nothing was missing")
	}
	setLevel(t, i, isolation.Strict)
	requireDrifts(RepairReport, 1)
	requireDrifts(RepairRules, 0) // the levels that the networks have by now are made before the comparison
	if got := w.filter.members["own"].Level; got != isolation.Strict {
		t.Errorf("the level is %q, want %q", got, isolation.Strict)
	}
}

// TestLevelOutlastsItsFile: the level that a network has got since it was attached stays, and so do the rules, when its file cannot be read any
// more, or is gone with its directory.
func TestLevelOutlastsItsFile(t *testing.T) {
	i := isolated(t, isolation.Network)
	w := newWorld(t, i)
	rule := "allow \"one\" {\n  from { namespace = \"n\" }\n  to { namespace = \"n\" }\n}\n"
	if err := errors.Join(os.WriteFile(w.config.IsolationFile, []byte(rule), 0o600), setup(ownRequest)(w)); err != nil {
		t.Fatal(err)
	}
	setLevel(t, i, isolation.Strict)
	if err := w.Isolation().Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(i.confDir, "web.conflist")
	for _, damage := range []func() error{
		func() error { return os.WriteFile(file, []byte(`{"name": "we`), 0o600) },
		func() error {
			return os.WriteFile(file, []byte(`{"cniVersion": "1.1.0", "name": "web", "allocnet": {"isolation": "no"}, "plugins": [{"type": "bridge"}]}`), 0o600)
		},
		func() error { return os.Remove(file) },
		func() error { return os.RemoveAll(i.confDir) },
		func() error { return os.WriteFile(i.confDir, nil, 0o600) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		clear(w.filter.members)
		err := w.Isolation().Refresh(t.Context())
		_, failed := w.RepairAttachments(t.Context(), RepairRequest{Mode: RepairRules})
		if got := w.filter.members["own"].Level; got != isolation.Strict || len(w.filter.rules.Allow) != 1 {
			t.Errorf("the level is %q, want %q, with the rules %v; %v, %v", got, isolation.Strict, w.filter.rules.Allow, err, failed)
		}
	}
}

// TestRulesOfIsolation: rules hold from the next attach or repair on; with a mistake in them the former ones stay, and nothing more is attached.
func TestRulesOfIsolation(t *testing.T) {
	w := newWorld(t, isolated(t, isolation.Network))
	write := func(text string) {
		if err := os.WriteFile(w.config.IsolationFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names := func() (all []string) {
		for _, r := range w.filter.rules.Allow {
			all = append(all, r.Name)
		}
		return all
	}
	write("allow \"one\" {\n  from {\n    namespace = \"n\"\n    job = \"a\"\n  }\n  to {\n    namespace = \"n\"\n  }\n}\n")
	if err := setup(ownRequest)(w); err != nil {
		t.Fatal(err)
	}
	if got := names(); !slices.Equal(got, []string{"one"}) {
		t.Errorf("after the first attach the rules are %v", got)
	}
	write("allow \"two\" {\n  from {\n    namespace = \"n\"\n    job = \"a\"\n  }\n  to {\n    namespace = \"n\"\n  }\n}\n")
	if err := setup(runtimeRequest)(w); err != nil {
		t.Fatal(err)
	}
	if got := names(); !slices.Equal(got, []string{"two"}) {
		t.Errorf("after an attach with other rules they are %v", got)
	}
	write("allow \"three\" {\n  form { namespace = \"a\" }\n}\n")
	err := extend(extendRequest)(w)
	if err == nil || !strings.Contains(err.Error(), w.config.IsolationFile+":2") {
		t.Errorf("an attach with a mistake in the rules: %v, want its line", err)
	}
	clear(w.filter.members)
	if _, err := w.RepairAttachments(t.Context(), RepairRequest{}); err == nil || !strings.Contains(err.Error(), w.config.IsolationFile+":2") {
		t.Errorf("a repair with a mistake in the rules: %v, want its line", err)
	}
	if got := names(); !slices.Equal(got, []string{"two"}) || len(w.filter.members) != 2 {
		t.Errorf("after a mistake the rules are %v, and known are %v", got, w.filter.ids())
	}
	w.wantApart()
}

// TestIsolationEnds: with the last allocation all that the host has is removed, and not before.
func TestIsolationEnds(t *testing.T) {
	w := newWorld(t, isolated(t, isolation.Strict))
	for _, call := range []func(*world) error{setup(ownRequest), setup(runtimeRequest), teardown("own")} {
		if err := call(w); err != nil {
			t.Fatal(err)
		}
	}
	w.wantApart()
	if inForce, err := w.env.Store.Isolation().InForce(); err != nil || inForce == nil {
		t.Errorf("in force is %q, %v", inForce, err)
	}
	if err := teardown("runtime")(w); err != nil {
		t.Fatal(err)
	}
	if inForce, err := w.env.Store.Isolation().InForce(); err != nil || inForce != nil {
		t.Errorf("after the last allocation in force is %q, %v", inForce, err)
	}
	w.wantNothing()
}

// TestNothingIsIsolated: where nothing is isolated the host is not asked.
func TestNothingIsIsolated(t *testing.T) {
	i := install(t)
	i.inProcess = true
	w := newWorld(t, i)
	w.filter.effect = func(name string, _ func() error) error {
		t.Error(name)
		return nil
	}
	for _, call := range []func(*world) error{setup(ownRequest), extend(extendRequest), teardown("own")} {
		if err := call(w); err != nil {
			t.Error(err)
		}
	}
	w.wantNothing()
}
