// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/state"
)

// remotes are attachments on other hosts, as "ADDRESS JOB".
func remotes(of map[string]string) (all []isolation.Remote) {
	for _, address := range slices.Sorted(maps.Keys(of)) {
		all = append(all, isolation.Remote{
			Host: "other", Network: "web", Level: isolation.Network, Namespace: "prod", Job: of[address], Via: "vxlan0",
			Addresses: []netip.Addr{netip.MustParseAddr(address)}, Confirmed: time.Now(),
		})
	}
	return all
}

// wantRemotes: the host knows these attachments on other hosts, and no more.
func (w *world) wantRemotes(of map[string]string) {
	w.t.Helper()
	got := map[string]string{}
	for id, m := range w.filter.members {
		if isolation.IsRemote(id) {
			got[m.Addresses[0].String()] = m.Job
			if m.Via != "vxlan0" || m.Link != "" || m.Host != "other" {
				w.t.Errorf("%s is known as %+v", id, m)
			}
		}
	}
	if !maps.Equal(got, of) {
		w.t.Errorf("known are %v, want %v", got, of)
	}
}

var (
	firstRemotes = map[string]string{"10.7.0.2": "web", "10.7.0.3": "db"}
	laterRemotes = map[string]string{"10.7.0.3": "web", "10.7.0.4": "db"}
)

// TestLearnMembers: what is learned of other hosts is known while anything is isolated, also when all is made anew, and after all is removed and is
// isolated again. Nothing is left when the pool is not used any more.
func TestLearnMembers(t *testing.T) {
	w := newWorld(t, isolated(t, isolation.Network))
	learn := func(pool string, of map[string]string, read time.Time) {
		t.Helper()
		if err := w.Isolation().Learn(t.Context(), pool, remotes(of), read); err != nil {
			t.Fatal(err)
		}
	}
	read := time.Now().Add(-time.Hour).Truncate(time.Second)
	learn("p", firstRemotes, read)
	w.wantRemotes(nil) // nothing is isolated
	for _, step := range []func(*world) error{setup(ownRequest), setup(runtimeRequest)} {
		if err := step(w); err != nil {
			t.Fatal(err)
		}
		w.wantRemotes(firstRemotes)
	}
	learn("p", laterRemotes, read)
	learn("other", map[string]string{"10.8.0.2": "web"}, read)
	both := maps.Clone(laterRemotes)
	both["10.8.0.2"] = "web"
	w.wantRemotes(both)
	clear(w.filter.members)
	if _, err := w.RepairAttachments(t.Context(), RepairRequest{}); err != nil {
		t.Fatal(err)
	}
	w.wantRemotes(both)
	learn("other", nil, time.Time{})
	w.wantRemotes(laterRemotes)
	if learned, err := w.Isolation().Learned(); err != nil || len(learned) != 1 || !learned["p"].Equal(read) {
		t.Errorf("learned is %v, %v, want that of p, read at %s", learned, err, read)
	}
	if all, err := w.Isolation().Remotes(); err != nil || len(all) != 2 || all[0].Host != "other" {
		t.Errorf("remote members: %+v, %v", all, err)
	}
	for _, id := range []string{"own", runtimeRequest.ID} {
		if err := teardown(id)(w); err != nil {
			t.Fatal(err)
		}
	}
	w.wantRemotes(nil)
}

// TestLearnedLongAgo: whose an attachment on another host is, which is not confirmed for long, is unknown; its network stays known.
func TestLearnedLongAgo(t *testing.T) {
	w := newWorld(t, isolated(t, isolation.Network))
	old := remotes(firstRemotes)
	old[0].Confirmed = time.Now().Add(-isolation.MostUnconfirmed - time.Minute)
	if err := w.Isolation().Learn(t.Context(), "p", old, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := setup(ownRequest)(w); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", "db"} {
		m := w.filter.members["@"+old[i].Addresses[0].String()]
		if m.Job != want || (m.Namespace == "") != (want == "") || m.Network != "web" || m.Level != isolation.Network {
			t.Errorf("known is %+v, want the job %q", m, want)
		}
	}
}

// TestKilledLearning: a process that is killed while it learns leaves what the next one completes, also if that learns the same: flows
// of attachments whose addresses others have by now end.
func TestKilledLearning(t *testing.T) {
	i := isolated(t, isolation.Network)
	w := newWorld(t, i)
	if err := setup(ownRequest)(w); err != nil {
		t.Fatal(err)
	}
	first, later := remotes(firstRemotes), remotes(laterRemotes)
	if err := w.Isolation().Learn(t.Context(), "p", first, time.Now()); err != nil {
		t.Fatal(err)
	}
	found := w.keep(t)
	for _, made := range []bool{false, true} {
		for at := 0; ; at++ {
			found(t)
			w.killAt(at, made)
			_ = w.Isolation().Learn(t.Context(), "p", later, time.Now()) // a dead process returns nothing
			died := w.killer.dead
			w.bury()
			for range 2 {
				if err := w.Isolation().Learn(t.Context(), "p", later, time.Now()); err != nil {
					t.Fatal(fmt.Sprint(at, made), err)
				}
				w.wantRemotes(laterRemotes)
			}
			for _, gone := range []string{"@10.7.0.2 web", "@10.7.0.3 db"} {
				if !slices.Contains(w.filter.ended, gone) {
					t.Errorf("flows of %s go on for the one that has its address", gone)
				}
			}
			if t.Failed() {
				t.Fatalf("killed at effect %d, made %t", at, made)
			}
			if !died {
				break
			}
			if err := w.Isolation().Learn(t.Context(), "p", nil, time.Now()); err != nil {
				t.Fatal(err)
			}
			w.wantRemotes(nil)
		}
	}
}

// TestLearningFailsTwice: a host that has not ended the flows of attachments that are gone when it learns again ends them when it can, of all
// that it had meanwhile.
func TestLearningFailsTwice(t *testing.T) {
	w := newWorld(t, isolated(t, isolation.Network))
	if err := setup(ownRequest)(w); err != nil {
		t.Fatal(err)
	}
	effect, fails := w.filter.effect, false
	w.filter.effect = func(name string, change func() error) error {
		if fails && name == "end flows" {
			return errors.New("flows cannot be listed")
		}
		return effect(name, change)
	}
	for _, step := range []struct {
		jobs  map[string]string
		fails bool
	}{
		{map[string]string{"10.7.0.2": "one"}, false}, {map[string]string{"10.7.0.2": "two", "10.7.0.3": "db"}, true},
		{map[string]string{"10.7.0.2": "three"}, true}, {map[string]string{"10.7.0.2": "four"}, false},
	} {
		fails = step.fails
		if err := w.Isolation().Learn(t.Context(), "p", remotes(step.jobs), time.Now()); (err != nil) != fails {
			t.Fatal(step, err)
		}
		w.wantRemotes(step.jobs)
	}
	for _, gone := range []string{"@10.7.0.2 one", "@10.7.0.2 two", "@10.7.0.3 db", "@10.7.0.2 three"} {
		if !slices.Contains(w.filter.ended, gone) {
			t.Errorf("flows of %s go on for the one that has its address: ended are %q", gone, w.filter.ended)
		}
	}
}

// TestLearningOfOtherPool: a host that completes what it learned of one pool takes the attachments of another, which are not confirmed for long, for no job's.
func TestLearningOfOtherPool(t *testing.T) {
	w := newWorld(t, isolated(t, isolation.Network))
	old := remotes(map[string]string{"10.8.0.2": "web"})
	old[0].Confirmed = time.Now().Add(-isolation.MostUnconfirmed - time.Minute)
	if err := setup(ownRequest)(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Isolation().Learn(t.Context(), "q", old, time.Now()); err != nil {
		t.Fatal(err)
	}
	killed, err := state.Open(w.config.StateDir)
	if err == nil {
		err = killed.Isolation().SetLearned("p", nil, time.Now())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Isolation().Learn(t.Context(), "p", remotes(firstRemotes), time.Now()); err != nil {
		t.Fatal(err)
	}
	want := maps.Clone(firstRemotes)
	want["10.8.0.2"] = ""
	w.wantRemotes(want)
}

// TestLearnedAgain: whose an attachment on another host is, which was unknown for long when the host got it, is known again once it is confirmed.
func TestLearnedAgain(t *testing.T) {
	w := newWorld(t, isolated(t, isolation.Network))
	old := remotes(firstRemotes)
	for i := range old {
		old[i].Confirmed = time.Now().Add(-isolation.MostUnconfirmed - time.Minute)
	}
	if err := w.Isolation().Learn(t.Context(), "p", old, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := setup(ownRequest)(w); err != nil {
		t.Fatal(err)
	}
	w.wantRemotes(map[string]string{"10.7.0.2": "", "10.7.0.3": ""})
	if err := w.Isolation().Learn(t.Context(), "p", remotes(firstRemotes), time.Now()); err != nil {
		t.Fatal(err)
	}
	w.wantRemotes(firstRemotes)
}
