// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/isolation/filter"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// apartInside makes the network storage, which is of macvlan, one that is strict, and kept apart inside.
func apartInside(t *testing.T, inProcess bool) installation {
	t.Helper()
	i := install(t)
	i.inProcess = inProcess
	if err := os.WriteFile(filepath.Join(i.pluginDir, "static"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	setInside(t, i, `"isolation": "strict", "enforce": "inside"`)
	return i
}

// setInside gives the network storage keys of policy.
func setInside(t *testing.T, i installation, keys string) {
	t.Helper()
	list := fmt.Sprintf(`{"cniVersion": "1.1.0", "name": "storage", "allocnet": {"routing": "source", %s}, "plugins": [{"type": "macvlan", "ipam": {"type": "static"},
		"args": {"gateway": "10.0.0.254"}, "dns": {"nameservers": ["10.0.0.2"]}}, {"type": "tuning", "sysctl": {"net.ipv4.tcp_syncookies": "1"}}]}`, keys)
	if err := os.WriteFile(filepath.Join(i.confDir, "storage.conflist"), []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestKilledInside is TestKilledAtEveryEffect for a network that is kept apart inside, by plugins and in process.
func TestKilledInside(t *testing.T) {
	some := map[string]killable{}
	for _, name := range []string{"Setup, runtime's namespace", "Extend", "Detach", "Teardown, runtime's namespace, that fails", "GC"} {
		some[name] = killables[name]
	}
	for _, inProcess := range []bool{false, true} {
		t.Run(fmt.Sprintf("in process %t", inProcess), func(t *testing.T) { killAll(t, apartInside(t, inProcess), some) })
	}
}

// wantApartInside: the namespace of an attachment keeps it apart as it is recorded, if it is there.
func (w *world) wantApartInside(of state.Allocation, a state.Attachment) {
	w.t.Helper()
	if w.namespaces.at[of.Netns] == nil {
		return
	}
	own := w.own(of.Netns)
	at := slices.IndexFunc(own, func(m filter.Member) bool { return m.ID == a.ContainerID })
	if at < 0 || own[at].MAC.String() != a.Isolation.MAC || len(own[at].Addresses) != 1 || own[at].End != a.Interface {
		w.t.Errorf("the namespace keeps apart %+v, want %s as recorded: %+v", own, a.ContainerID, *a.Isolation)
	}
}

// own returns the attachments that a namespace keeps apart.
func (w *world) own(path string) []filter.Member {
	w.filter.mu.Lock()
	defer w.filter.mu.Unlock()
	return w.filter.inside[w.namespaces.at[path].id].Own
}

// TestInsideIsClosedFirst: nothing passes by an interface from before ADD until its addresses are on record, and what keeps it apart goes after it.
func TestInsideIsClosedFirst(t *testing.T) {
	for _, inProcess := range []bool{false, true} {
		w := newWorld(t, apartInside(t, inProcess))
		isClosed := func() bool {
			own := w.own(runtimeNetns)
			return len(own) == 1 && own[0].MAC == nil
		}
		var wasClosed atomic.Bool
		w.onCall = func(int, bool) {
			if slices.ContainsFunc(w.namespaces.interfaces(runtimeNetns), func(name string) bool { return name == w.insideOf("runtime") }) && len(w.own(runtimeNetns)) == 0 {
				t.Errorf("in process %t: the interface is there, and nothing keeps it apart", inProcess)
			}
			if isClosed() {
				wasClosed.Store(true)
			}
		}
		if err := setup(runtimeRequest)(w); err != nil {
			t.Fatal(err)
		}
		own := w.own(runtimeNetns)
		if len(own) != 1 || len(own[0].Addresses) != 1 || own[0].MAC == nil || own[0].End != w.insideOf("runtime") || !wasClosed.Load() {
			t.Errorf("in process %t: the namespace keeps apart %+v, closed before: %t", inProcess, own, wasClosed.Load())
		}
		if !w.namespaces.at[runtimeNetns].announced {
			t.Errorf("in process %t: the agent hears of nothing that is removed there", inProcess)
		}
		if err := teardown("runtime")(w); err != nil {
			t.Error(err)
		}
		w.wantNothing()
	}
}

// insideOf returns the interface of the attachment of an allocation to storage.
func (w *world) insideOf(id string) string {
	r, _ := w.env.Store.Read(id)
	for _, a := range r.Attachments {
		if a.Network == "storage" {
			return a.Interface
		}
	}
	return ""
}

// TestInsideKnowsOthers: a namespace knows all other attachments from their ADD to their DEL, also of networks with an end on the host, and gets all again
// that it has lost.
func TestInsideKnowsOthers(t *testing.T) {
	w := newWorld(t, apartInside(t, true))
	if err := setup(runtimeRequest)(w); err != nil {
		t.Fatal(err)
	}
	others := func() (ids []string) {
		for _, m := range w.filter.inside[w.namespaces.at[runtimeNetns].id].Others {
			if strings.HasPrefix(m.ID, "own") {
				ids = append(ids, m.Network)
			}
		}
		slices.Sort(ids)
		return ids
	}
	if err := setup(ownRequest)(w); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(others()); got != "[storage web]" {
		t.Errorf("known are the attachments to %s", got)
	}
	clear(w.filter.inside)
	drifts, err := w.RepairAttachments(t.Context(), RepairRequest{})
	if err != nil || len(drifts) != 2 || !drifts[0].Repaired || fmt.Sprint(others()) != "[storage web]" {
		t.Errorf("repaired is %+v, %v, and known are the attachments to %s", drifts, err, others())
	}
	if err := teardown("own")(w); err != nil {
		t.Fatal(err)
	}
	if got := others(); len(got) > 0 {
		t.Errorf("after the end of the other one the attachments to %s are known", got)
	}
}

// asAnother calls tell as another process does that tells the host and namespaces of all on record: under the lock of these, with what is on record then. If the
// call that goes on has the lock, that one waits, and is not called.
func (w *world) asAnother(t *testing.T, id string, tell func(record state.Record)) {
	t.Helper()
	soon, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	unlock, err := w.env.Store.Isolation().Lock(soon)
	if err != nil {
		return
	}
	defer unlock()
	record, err := w.env.Store.Read(id)
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		t.Error(err)
	}
	w.filter.mu.Lock()
	defer w.filter.mu.Unlock()
	tell(record)
}

// TestInsideForgetsWhatPluginsDetach: a namespace does not know an attachment whose plugins have detached it, also if another process has told it of all on record
// meanwhile.
func TestInsideForgetsWhatPluginsDetach(t *testing.T) {
	w := newWorld(t, apartInside(t, false))
	err := errors.Join(setup(runtimeRequest)(w), setup(ownRequest)(w))
	if err != nil {
		t.Fatal(err)
	}
	id, told := w.namespaces.at[runtimeNetns].id, 0
	isOwn := func(m filter.Member) bool { return strings.HasPrefix(m.ID, "own") }
	before := w.filter.inside[id]
	w.onCall = func(int, bool) {
		w.asAnother(t, "own", func(record state.Record) {
			s := before
			s.Others = slices.DeleteFunc(slices.Clone(before.Others), func(m filter.Member) bool {
				return isOwn(m) && !slices.ContainsFunc(record.Attachments, func(a state.Attachment) bool { return a.ContainerID == m.ID })
			})
			w.filter.inside[id], told = s, told+1
		})
	}
	err = teardown("own")(w)
	if left := w.filter.inside[id].Others; err != nil || len(before.Others) != 3 || told == 0 || slices.ContainsFunc(left, isOwn) {
		t.Errorf("of %+v are left %+v, told %d times: %v", before.Others, left, told, err)
	}
}

// TestInsideLeavesWhatPluginsDetach: the namespace of an attachment whose plugins have detached it has nothing of it, also if another process has told it of all on
// record when it had been left.
func TestInsideLeavesWhatPluginsDetach(t *testing.T) {
	for _, inProcess := range []bool{false, true} {
		w := newWorld(t, apartInside(t, inProcess))
		if err := setup(runtimeRequest)(w); err != nil {
			t.Fatal(err)
		}
		iface, id := w.insideOf("runtime"), w.namespaces.at[runtimeNetns].id
		before, tried := w.filter.inside[id], 0
		w.filter.effect = func(name string, change func() error) error {
			if err := change(); err != nil || name != "remove inside" {
				return err
			}
			tried++
			w.asAnother(t, "runtime", func(record state.Record) {
				if slices.ContainsFunc(record.Attachments, func(a state.Attachment) bool { return a.Interface == iface }) {
					w.filter.inside[id] = before
				}
			})
			return nil
		}
		err := w.Detach(t.Context(), "runtime", iface)
		if left := w.own(runtimeNetns); err != nil || tried == 0 || len(before.Own) != 1 || len(left) > 0 {
			t.Errorf("in process %t: of %+v are left %+v, of %d: %v", inProcess, before.Own, left, tried, err)
		}
	}
}

// TestInsideRefused: an allocation whose task keeps others from the tables of its namespace keeps no other one from being attached, repaired and detached, and is
// told of as not repaired.
func TestInsideRefused(t *testing.T) {
	w := newWorld(t, apartInside(t, true))
	if err := setup(runtimeRequest)(w); err != nil {
		t.Fatal(err)
	}
	w.filter.refuses = w.namespaces.at[runtimeNetns].id
	if err := setup(ownRequest)(w); err != nil {
		t.Fatalf("with a namespace of another allocation that refuses: %v", err)
	}
	for path := range w.namespaces.at {
		if path != runtimeNetns {
			delete(w.filter.inside, w.namespaces.at[path].id)
		}
	}
	drifts, err := w.RepairAttachments(t.Context(), RepairRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range drifts {
		if isRefused := d.Allocation == "runtime"; d.Repaired == isRefused || (d.Err != nil) != isRefused || isRefused && !strings.Contains(d.Err.Error(), unix.EPERM.Error()) {
			t.Errorf("repaired is %+v", d)
		}
	}
	if len(drifts) != 2 {
		t.Errorf("there are the drifts %+v", drifts)
	}
	if err := teardown("own")(w); err != nil {
		t.Errorf("with a namespace of another allocation that refuses: %v", err)
	}
	if err := setup(ownRequest)(w); err != nil {
		t.Fatal(err)
	}
	for path, ns := range w.namespaces.at {
		if path != runtimeNetns {
			w.filter.refuses = ns.id
		}
	}
	if err := teardown("own")(w); err == nil {
		t.Error("what is in an allocation's own namespace is not removed, and its end is no error")
	}
}

// TestInsideShared: attachments of several allocations with one namespace are all kept apart there, whichever came or went last.
func TestInsideShared(t *testing.T) {
	w := newWorld(t, apartInside(t, true))
	second := Request{ID: "second", Netns: runtimeNetns, Networks: []selection.Element{{Name: "storage", Interface: "other0"}}}
	for _, r := range []Request{runtimeRequest, second} {
		if err := setup(r)(w); err != nil {
			t.Fatal(err)
		}
	}
	requireOwn := func(want ...string) {
		t.Helper()
		var got []string
		for _, m := range w.own(runtimeNetns) {
			got = append(got, m.End)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("kept apart are %v, want %v", got, want)
		}
	}
	requireOwn(w.insideOf("runtime"), "other0")
	if err := w.Isolation().Learn(t.Context(), "p", remotes(firstRemotes), time.Now()); err != nil {
		t.Fatal(err)
	}
	requireOwn(w.insideOf("runtime"), "other0")
	if err := teardown("runtime")(w); err != nil {
		t.Fatal(err)
	}
	requireOwn("other0")
	if err := teardown("second")(w); err != nil {
		t.Error(err)
	}
	if err := w.Isolation().Learn(t.Context(), "p", nil, time.Now()); err != nil {
		t.Error(err)
	}
	w.wantNothing()
}

// TestInsideForgetsItsNeighbour: a namespace does not know an attachment of its own allocation with an end on the host any more when that is gone.
func TestInsideForgetsItsNeighbour(t *testing.T) {
	w := newWorld(t, apartInside(t, true))
	if err := setup(runtimeRequest)(w); err != nil {
		t.Fatal(err)
	}
	others := func() []filter.Member { return w.filter.inside[w.namespaces.at[runtimeNetns].id].Others }
	isWeb := func(m filter.Member) bool { return m.Network == "web" }
	if !slices.ContainsFunc(others(), isWeb) {
		t.Fatalf("known are %+v", others())
	}
	if err := w.Detach(t.Context(), "runtime", "net1"); err != nil {
		t.Fatal(err)
	}
	if len(others()) > 0 {
		t.Errorf("known are %+v", others())
	}
}

// TestInsideFollowsItsNetwork: running attachments are kept apart inside when their network says so, and not any more when it has no level. One that has a
// level, and does not say where, stays so inside.
func TestInsideFollowsItsNetwork(t *testing.T) {
	i := apartInside(t, true)
	setInside(t, i, `"isolation": "none"`)
	w := newWorld(t, i)
	if err := setup(runtimeRequest)(w); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		keys string
		want int
	}{{`"isolation": "network", "enforce": "inside"`, 1}, {`"isolation": "none"`, 0}, {`"isolation": "strict", "enforce": "inside"`, 1}, {`"isolation": "network"`, 1}} {
		setInside(t, i, step.keys)
		if err := w.Isolation().Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if own := w.own(runtimeNetns); len(own) != step.want || step.want == 1 && (len(own[0].Addresses) != 1 || own[0].Level != "network" && own[0].Level != "strict") {
			t.Errorf("with %s the namespace keeps apart %+v", step.keys, own)
		}
	}
}

// TestInsideEndsAfterAKill: what a namespace has goes when its network is not kept apart any more, also where the process that removes it dies at any moment, and
// others are kept apart still.
func TestInsideEndsAfterAKill(t *testing.T) {
	for at := 0; ; at++ {
		i := apartInside(t, true)
		setLevel(t, i, "strict")
		setInside(t, i, `"isolation": "none"`)
		w := newWorld(t, i)
		if err := setup(runtimeRequest)(w); err != nil {
			t.Fatal(err)
		}
		if err := setup(ownRequest)(w); err != nil {
			t.Fatal(err)
		}
		setInside(t, i, `"isolation": "strict", "enforce": "inside"`)
		if err := w.Isolation().Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		setInside(t, i, `"isolation": "none"`)
		w.killAt(at, false)
		_ = w.Isolation().Refresh(t.Context())
		isDead := w.killer.dead
		w.bury()
		for range 2 { // the second one finds nothing to do
			if err := w.Isolation().Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if len(w.filter.inside) > 0 || len(w.filter.ids()) == 0 {
			t.Errorf("killed at effect %d: %d namespaces have something, and the host %v", at, len(w.filter.inside), w.filter.ids())
		}
		if !isDead {
			break
		}
	}
}

// TestInsideLearnsWithALevelLess: a network that is not kept apart any more stays so when attachments on other hosts become known.
func TestInsideLearnsWithALevelLess(t *testing.T) {
	i := apartInside(t, true)
	setLevel(t, i, "strict")
	third := `{"cniVersion": "1.1.0", "name": "third", "allocnet": {"isolation": "strict", "enforce": "inside"}, "plugins": [{"type": "macvlan", "ipam": {"type": "static"}}]}`
	if err := os.WriteFile(filepath.Join(i.confDir, "third.conflist"), []byte(third), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, i)
	if err := setup(runtimeRequest)(w); err != nil {
		t.Fatal(err)
	}
	setInside(t, i, `"isolation": "none"`)
	if err := w.Isolation().Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Isolation().Learn(t.Context(), "p", remotes(firstRemotes), time.Now()); err != nil {
		t.Fatal(err)
	}
	if len(w.filter.inside) > 0 || len(w.filter.ids()) == 0 {
		t.Errorf("namespaces have %v, and the host %v", w.filter.inside, w.filter.ids())
	}
}

// TestInsideLearns: a namespace knows attachments on other hosts as they are learned, and flows with addresses that have become another one's end there.
func TestInsideLearns(t *testing.T) {
	w := newWorld(t, apartInside(t, true))
	if err := setup(runtimeRequest)(w); err != nil {
		t.Fatal(err)
	}
	learned := func() (jobs map[string]string) {
		jobs = map[string]string{}
		for _, m := range w.filter.inside[w.namespaces.at[runtimeNetns].id].Others {
			if m.Host == "other" {
				jobs[m.Addresses[0].String()] = m.Job
			}
		}
		return jobs
	}
	for _, step := range []struct {
		jobs  map[string]string
		ended string
	}{{firstRemotes, "[]"}, {laterRemotes, "[10.7.0.2 10.7.0.3]"}, {nil, "[10.7.0.3 10.7.0.4]"}} {
		if err := w.Isolation().Learn(t.Context(), "p", remotes(step.jobs), time.Now()); err != nil {
			t.Fatal(err)
		}
		if ended := fmt.Sprint(w.filter.inside[w.namespaces.at[runtimeNetns].id].Ended); !maps.Equal(learned(), step.jobs) || ended != step.ended {
			t.Errorf("known are %v, and the flows of %s have ended, want %v and %s", learned(), ended, step.jobs, step.ended)
		}
	}
}
