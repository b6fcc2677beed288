// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/state"
)

// collection is a host with the leaks of the listing, and a collector for it.
func collection(t *testing.T) (*fakeSystem, *Collector) {
	t.Helper()
	store, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f, conf := newFakeSystem(), t.TempDir()
	f.saved["iptables-nft"] = listing
	writeFile(t, conf+"/web.conf", `{"cniVersion": "1.0.0", "name": "web", "type": "bridge"}`)
	return f, &Collector{Store: store, ConfDirs: []string{conf}, CacheDir: t.TempDir(), host: f.host(catalogue.within(t.TempDir()))}
}

// record puts an allocation with one attachment on record.
func record(t *testing.T, c *Collector, a state.Allocation, attachment state.Attachment) {
	t.Helper()
	lock, err := c.Store.Lock(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	if a.BootID, err = state.BootID(); err != nil {
		t.Fatal(err)
	}
	attachment.Network, attachment.Interface, attachment.ContainerID = "web", "eth0", a.ID
	attachment.ConfList = []byte(`{"cniVersion": "1.0.0", "name": "web", "plugins": [{"type": "bridge"}]}`)
	attachment.Result = []byte(`{"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.2/24"}]}`)
	if err := lock.Begin(a, []state.Attachment{attachment}); err != nil {
		t.Fatal(err)
	}
}

// recordedA1 is an allocation with a namespace of its own.
var recordedA1 = state.Allocation{ID: "a1", Mode: state.ModeSetup, Netns: "/run/netns/a1"}

// setUpIn is an attachment of Setup in a phase.
func setUpIn(phase state.Phase) state.Attachment {
	return state.Attachment{Batch: state.Batch{Kind: state.BatchSetup}, Phase: phase}
}

// reasons are those of the decisions on the chain of an allocation.
func reasons(r *Report, o Owner) string {
	for _, d := range r.Decisions {
		if d.key == masqueradeChain(o) {
			if d.Leaked {
				return "leaked: " + d.Reason
			}
			return d.Reason
		}
	}
	return "not found"
}

// TestCollect removes the objects of the dead, tells of progress, and reports
// what is blocked.
func TestCollect(t *testing.T) {
	f, c := collection(t)
	var progress []int
	c.Progress = func(done, of int) { progress = append(progress, done, of) }
	report, err := c.Collect(t.Context(), Scope{}, NoneLive)
	if err == nil || !strings.Contains(err.Error(), "a rule of another program") {
		t.Errorf("%v, want an error that names the foreign rule", err)
	}
	if !f.made("-X "+masqueradeChain(a1)) || !f.made("-X "+portChain(a1)) || f.made("-X "+masqueradeChain(a3)) {
		t.Errorf("calls %q", f.calls)
	}
	if report.Removed != 4 || len(report.Failures) != 2 || len(report.Leaked()) != 6 || len(report.Gone()) != 4 {
		t.Errorf("removed %d, failures %v, leaked %v", report.Removed, report.Failures, report.Leaked())
	}
	if len(progress) != 2 || progress[0] != 3 || progress[1] != 3 {
		t.Errorf("progress %v, want 3 of 3", progress)
	}
	if report.Alive != "" {
		t.Errorf("no allocation is asked for, and one lives: %s", report.Alive)
	}
	if got := reasons(report, a2); got != "its owner is unknown" {
		t.Errorf("a chain without proof: %s", got)
	}
}

// TestRecordedIsNotGone: what is on record is left to its teardown, and not reported as removed.
func TestRecordedIsNotGone(t *testing.T) {
	_, c := collection(t)
	record(t, c, recordedA1, setUpIn(state.Pending))
	scope := Scope{Allocation: "a1"}
	before, err := c.Examine(t.Context(), scope, NoneLive)
	if err != nil {
		t.Fatal(err)
	}
	report, err := c.Collect(t.Context(), scope, NoneLive)
	if err != nil || len(report.Leaked()) != 4 || report.Removed > 0 || len(report.Gone()) > 0 || len(before.GoneBy(report)) > 0 {
		t.Errorf("%d leaked, gone %v, %v, %v, want four and none", len(report.Leaked()), report.Gone(), before.GoneBy(report), err)
	}
}

// TestExamine decides by records, namespaces and the live set, and changes nothing.
func TestExamine(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(t *testing.T, f *fakeSystem, c *Collector)
		live    Live
		want    string
	}{
		"dead": {want: "leaked: no allocation of that ID"},
		"live": {live: func(string) string { return "Nomad" }, want: "its allocation lives: Nomad"},
		"recorded, namespace gone": {want: "leaked: ",
			prepare: func(t *testing.T, _ *fakeSystem, c *Collector) {
				record(t, c, recordedA1, setUpIn(state.Attached))
			}},
		"recorded, namespace exists": {want: "its allocation is on record and lives",
			prepare: func(t *testing.T, f *fakeSystem, c *Collector) {
				f.addNamespace("/run/netns/a1", "1", "10.0.0.9/24")
				record(t, c, recordedA1, setUpIn(state.Attached))
			}},
		"set-up interrupted": {want: "leaked: its set-up was interrupted",
			prepare: func(t *testing.T, f *fakeSystem, c *Collector) {
				f.addNamespace("/run/netns/a1", "1", "10.0.0.9/24")
				record(t, c, recordedA1, setUpIn(state.Adding))
			}},
		"teardown interrupted": {want: "leaked: its teardown did not finish",
			prepare: func(t *testing.T, f *fakeSystem, c *Collector) {
				f.addNamespace("/run/netns/a1", "1", "10.0.0.9/24")
				record(t, c, recordedA1, setUpIn(state.Pending))
			}},
		"Extend interrupted": {want: "its allocation is on record and lives",
			prepare: func(t *testing.T, f *fakeSystem, c *Collector) {
				f.addNamespace("/run/netns/a1", "1", "10.0.0.9/24")
				record(t, c, recordedA1, state.Attachment{Batch: state.Batch{Kind: state.BatchExtend, ID: "d"}, Phase: state.Adding})
			}},
		"set-up in flight": {want: "its allocation is on record and lives",
			prepare: func(t *testing.T, f *fakeSystem, c *Collector) {
				record(t, c, recordedA1, setUpIn(state.Adding))
				lock, err := c.Store.Lock(t.Context(), "a1")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(lock.Unlock)
			}},
		"torn down since its record was read": {want: "its allocation is on record and lives",
			prepare: func(t *testing.T, f *fakeSystem, c *Collector) {
				record(t, c, recordedA1, setUpIn(state.Attached))
				f.opened = func(path string) {
					if path != "/run/netns/a1" {
						return
					}
					lock, err := c.Store.Lock(t.Context(), "a1")
					if err != nil {
						t.Fatal(err)
					}
					defer lock.Unlock()
					if err := lock.Clear(); err != nil {
						t.Fatal(err)
					}
				}
			}},
		"set up since its record was read": {want: "its allocation is on record and lives",
			prepare: func(t *testing.T, f *fakeSystem, c *Collector) {
				f.addNamespace("/run/netns/a1", "1", "10.0.0.9/24")
				record(t, c, recordedA1, setUpIn(state.Adding))
				f.opened = func(path string) {
					if path == "/run/netns/a1" {
						record(t, c, recordedA1, setUpIn(state.Attached))
					}
				}
			}},
		"live, in an unknown network": {live: func(string) string { return "Nomad" }, want: "its allocation lives: Nomad",
			prepare: func(_ *testing.T, _ *fakeSystem, c *Collector) { c.ConfDirs = nil }},
		"address in use": {want: "its address 10.0.0.2 is in use in /run/netns/other",
			prepare: func(_ *testing.T, f *fakeSystem, _ *Collector) {
				f.addNamespace("/run/netns/other", "2", "10.0.0.2/24")
			}},
	} {
		t.Run(name, func(t *testing.T) {
			f, c := collection(t)
			if test.prepare != nil {
				test.prepare(t, f, c)
			}
			if test.live == nil {
				test.live = NoneLive
			}
			report, err := c.Examine(t.Context(), Scope{Network: "web"}, test.live)
			if err != nil {
				t.Fatal(err)
			}
			if got := reasons(report, a1); !strings.HasPrefix(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
			if f.made("restore") {
				t.Errorf("it changes the host: %q", f.calls)
			}
		})
	}
}

// TestExamineOne: with one allocation in the scope, objects of any network count,
// and the report says whether the allocation is live.
func TestExamineOne(t *testing.T) {
	f, c := collection(t)
	c.ConfDirs = nil
	report, err := c.Examine(t.Context(), Scope{Allocation: "a1"}, NoneLive)
	if err != nil || report.Alive != "" || len(report.Leaked()) != 4 {
		t.Errorf("%+v, %v, want the four objects of a1", report, err)
	}
	f.addNamespace("/run/netns/a1", "1", "10.0.0.9/24")
	record(t, c, recordedA1, setUpIn(state.Attached))
	if report, err = c.Examine(t.Context(), Scope{Allocation: "a1"}, NoneLive); err != nil || !strings.Contains(report.Alive, "on record and lives") {
		t.Errorf("%+v, %v, want it alive", report, err)
	}
	writeFile(t, filepath.Join(c.CacheDir, "results", "web-a9-eth0"), `{"containerId": "a9", "networkName": "web", "ifName": "eth0", "netns": "/proc/self/ns/net"}`)
	if report, err = c.Examine(t.Context(), Scope{Allocation: "a9"}, NoneLive); err != nil || !strings.Contains(report.Alive, "namespace /proc/self/ns/net") {
		t.Errorf("%+v, %v, want it alive by libcni's cache", report, err)
	}
}

// TestUnexaminable: sources that fail are problems. Where not all namespaces are known, no
// allocation is known to be dead.
func TestUnexaminable(t *testing.T) {
	f, c := collection(t)
	f.errs["iptables-nft-save"], f.errs["links"] = errFake, errFake
	report, err := c.Examine(t.Context(), Scope{}, NoneLive)
	if err != nil || len(report.Problems) != 1 || !strings.Contains(report.Problems[0].String(), "list iptables-nft: out of order") {
		t.Errorf("%+v, %v, want one problem that names both sources", report, err)
	}
	f, c = collection(t)
	f.errs["namespaces"] = errFake
	if report, err := c.Collect(t.Context(), Scope{}, NoneLive); !errors.Is(err, errFake) || len(report.Leaked()) > 0 || f.made("restore") {
		t.Errorf("a namespace that cannot be looked into: %v, leaked %v", err, report.Leaked())
	}
	if _, err := c.Collect(t.Context(), Scope{}, nil); !errors.Is(err, ErrLiveUnknown) {
		t.Errorf("no live set: %v", err)
	}
}

// forwarded are the rules of an allocation that only its lease proves the owner of.
const forwarded = `*filter
:CNI-FORWARD - [0:0]
-A CNI-FORWARD -d 10.0.0.2/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s 10.0.0.2/32 -j ACCEPT
COMMIT
`

// leased is a collection with the rules and the lease of a dead allocation.
func leased(t *testing.T) (f *fakeSystem, c *Collector, lease string) {
	t.Helper()
	f, c = collection(t)
	root := t.TempDir()
	lease = root + "/var/lib/cni/networks/web/10.0.0.2"
	c.host = f.host(catalogue.within(root))
	writeFile(t, filepath.Dir(lease)+"/lock", "")
	writeFile(t, lease, "a1\r\neth0")
	f.saved["iptables-nft"] = forwarded
	return f, c, lease
}

// TestUnlisted: while rules are not listed, because the program fails or hangs, what shows their
// owner is kept, and the collection has failed. The next one removes all.
func TestUnlisted(t *testing.T) {
	for name, fault := range map[string]error{"fails": errFake, "hangs": errHangs} {
		t.Run(name, func(t *testing.T) {
			f, c, _ := leased(t)
			c.host.patience = 10 * time.Millisecond
			writeFile(t, filepath.Join(c.CacheDir, "results", "web-a1-eth0"), `{"containerId": "a1", "networkName": "web", "ifName": "eth0"}`)
			f.errs["iptables-nft-save"] = fault
			report, err := c.Collect(t.Context(), Scope{}, NoneLive)
			if err == nil || !strings.Contains(err.Error(), "leaks may be left: list iptables-nft: ") || report.Removed > 0 || len(report.Failures) != 2 {
				t.Errorf("removed %d, left %v: %v, want lease and result left", report.Removed, report.Failures, err)
			}
			c.host.patience = 0
			delete(f.errs, "iptables-nft-save")
			if report, err = c.Collect(t.Context(), Scope{}, NoneLive); err != nil || report.Removed != 4 || !f.made("iptables-nft-restore") {
				t.Errorf("removed %d, %v: want the rules and what shows their owner gone", report.Removed, err)
			}
		})
	}
}

// TestTornDownMeanwhile: an allocation that is set up after the first reading of the records and torn
// down before the second is not taken for a leak.
func TestTornDownMeanwhile(t *testing.T) {
	f, c, lease := leased(t)
	c.RefreshLive = func(context.Context) (Live, error) { return NoneLive, os.Remove(lease) }
	report, err := c.Collect(t.Context(), Scope{}, NoneLive)
	if err != nil || report.Removed > 0 || len(report.Gone()) > 0 || f.made("iptables-nft-restore") {
		t.Errorf("removed %d, gone %v, calls %q, %v: want nothing removed", report.Removed, report.Gone(), f.calls, err)
	}
}

// TestGivenAwayMeanwhile: a rule of an address that another allocation has leased since the scan is that one's.
func TestGivenAwayMeanwhile(t *testing.T) {
	f, c, lease := leased(t)
	c.RefreshLive = func(context.Context) (Live, error) {
		writeFile(t, lease, "b1\r\neth0")
		return NoneLive, nil
	}
	report, err := c.Collect(t.Context(), Scope{}, NoneLive)
	if err == nil || !strings.Contains(err.Error(), "has changed") || f.made("iptables-nft-restore") || !exists(lease) {
		t.Errorf("failures %v, calls %q, %v: want the lease and its rules kept", report.Failures, f.calls, err)
	}
}

// TestPinnedMeanwhile: the namespace of a name proves life, also one that was made since the scan.
func TestPinnedMeanwhile(t *testing.T) {
	f, c, _ := leased(t)
	c.RefreshLive = func(context.Context) (Live, error) {
		f.addNamespace("/run/netns/a1", "1", "10.0.0.9/24")
		return NoneLive, nil
	}
	report, err := c.Collect(t.Context(), Scope{}, NoneLive)
	if err != nil || report.Removed > 0 || f.made("iptables-nft-restore") {
		t.Errorf("removed %d, calls %q, %v: want nothing removed", report.Removed, f.calls, err)
	}
}

// TestNotAskedAgain: nothing is removed where the live set or the leases cannot be read, and it is an error.
func TestNotAskedAgain(t *testing.T) {
	f, c, lease := leased(t)
	c.RefreshLive = func(context.Context) (Live, error) { return nil, errFake }
	if report, err := c.Collect(t.Context(), Scope{}, NoneLive); !errors.Is(err, errFake) || report.Removed > 0 || f.made("iptables-nft-restore") {
		t.Errorf("removed %d without a live set, %v", report.Removed, err)
	}
	c.RefreshLive = nil
	lock := filepath.Dir(lease) + "/lock"
	if err := errors.Join(os.Remove(lock), os.Mkdir(lock, 0o700)); err != nil {
		t.Fatal(err)
	}
	if report, err := c.Collect(t.Context(), Scope{}, NoneLive); err == nil || report.Removed > 0 || len(report.Failures) == 0 || f.made("iptables-nft-restore") {
		t.Errorf("removed %d without the lock of leases, failures %v, %v", report.Removed, report.Failures, err)
	}
}

// TestRulesAreLeft: while a rule to an address cannot be removed, the address is not free.
func TestRulesAreLeft(t *testing.T) {
	f, c, lease := leased(t)
	f.errs["iptables-nft-restore"] = errFake
	report, err := c.Collect(t.Context(), Scope{}, NoneLive)
	if _, gone := os.Stat(lease); gone != nil || err == nil || report.Removed > 0 {
		t.Errorf("lease: %v; removed %d, %v, want all left", gone, report.Removed, err)
	}
}

// TestUnreadableRecord: the allocation counts as live, and keeps no other one from being looked at.
func TestUnreadableRecord(t *testing.T) {
	newer := sha256.Sum256([]byte("99\n{}"))
	for line, want := range map[string]string{`{"version": 99}`: "its record is damaged", fmt.Sprintf(`{"version":99,"sha256":"%x","record":{}}`, newer): "cannot be read"} {
		f, c := collection(t)
		f.addNamespace("/run/netns/a1", "1", "10.0.0.9/24")
		record(t, c, recordedA1, setUpIn(state.Attached))
		store := t.TempDir()
		writeFile(t, store+"/allocations/a1/journal", line+"\n")
		var err error
		if c.Store, err = state.Open(store); err != nil {
			t.Fatal(err)
		}
		report, err := c.Examine(t.Context(), Scope{Allocation: "a1"}, NoneLive)
		if err != nil || len(report.Leaked()) > 0 || !strings.Contains(report.Alive, want) {
			t.Errorf("%s: %+v, %v, want it unknown", line, report, err)
		}
	}
}

// TestShortLive: tables of Nomad have the first characters of IDs. Other IDs are complete.
func TestShortLive(t *testing.T) {
	const id = "8ba85cef-26cc-6cd8-02b5-9e0cd9bd3c5c"
	for listed, want := range map[string]bool{id: true, "8ba85cef": true, "8ba85cef-26": true, "8ba85ce": false, "26cc-6cd8": false, id + "0": false} {
		live, err := QueryLive(t.Context(), sourceOf{ids: []string{listed}})
		if err != nil || (live(id) != "") != want {
			t.Errorf("%s: %q, %v", listed, live(id), err)
		}
	}
	if live, err := QueryLive(t.Context(), sourceOf{ids: []string{"storage-1"}}); err != nil || live("storage-10") != "" {
		t.Errorf("another ID: %q, %v", live("storage-10"), err)
	}
}

// TestQueryLive: an error of one source is the result.
func TestQueryLive(t *testing.T) {
	live, err := QueryLive(t.Context(), sourceOf{ids: []string{"a"}})
	if err != nil || live("a") != "test" || live("b") != "" {
		t.Errorf("%v", err)
	}
	if _, err := QueryLive(t.Context(), sourceOf{ids: []string{"a"}}, sourceOf{err: errFake}); !errors.Is(err, errFake) {
		t.Errorf("%v, want the source's error", err)
	}
}

type sourceOf struct {
	ids []string
	err error
}

func (s sourceOf) Live(context.Context) ([]string, error) { return s.ids, s.err }

func (s sourceOf) Name() string { return "test" }

// TestTornDownDuringScan: what a Teardown has removed since the rules were listed is not
// a leak.
func TestTornDownDuringScan(t *testing.T) {
	f, c := collection(t)
	f.addNamespace("/run/netns/a1", "1", "10.0.0.9/24")
	record(t, c, recordedA1, setUpIn(state.Attached))
	f.opened = func(path string) {
		if path != procfs { // when the rules are listed
			return
		}
		lock, err := c.Store.Lock(t.Context(), "a1")
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Unlock()
		delete(f.namespaced, "/run/netns/a1")
		f.opened = nil
		if err := lock.Clear(); err != nil {
			t.Fatal(err)
		}
	}
	report, err := c.Examine(t.Context(), Scope{Network: "web"}, NoneLive)
	if err != nil {
		t.Fatal(err)
	}
	if got := reasons(report, a1); got != "its allocation was torn down during the scan" {
		t.Errorf("%q, want that it was torn down", got)
	}
	if report, err = c.Examine(t.Context(), Scope{Network: "web"}, NoneLive); err != nil {
		t.Fatal(err)
	}
	if got := reasons(report, a1); !strings.HasPrefix(got, "leaked") {
		t.Errorf("%q, want a leak: it was there before the next scan", got)
	}
}

// TestGrace: a lease keeps its allocation for the grace period only, also if the clock was set
// back by a day since it was made.
func TestGrace(t *testing.T) {
	for name, test := range map[string]struct {
		age          time.Duration
		reason, logs string
	}{
		"of now":      {0, "its allocation has a lease within the grace period", ""},
		"of before":   {time.Hour, "leaked: no allocation of that ID", ""},
		"of tomorrow": {-24 * time.Hour, "leaked: no allocation of that ID", "the clock was set back"},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := collection(t)
			var log bytes.Buffer
			c.Grace, c.Logger = time.Minute, hclog.New(&hclog.LoggerOptions{Output: &log})
			leases := t.TempDir()
			writeFile(t, c.ConfDirs[0]+"/web.conf", `{"cniVersion": "1.0.0", "name": "web", "type": "bridge", "ipam": {"type": "host-local", "dataDir": "`+leases+`"}}`)
			lease, made := leases+"/web/10.0.0.2", time.Now().Add(-test.age)
			writeFile(t, lease, "a1\r\neth0")
			writeFile(t, leases+"/web/lock", "")
			if err := os.Chtimes(lease, made, made); err != nil {
				t.Fatal(err)
			}
			report, err := c.Examine(t.Context(), Scope{}, NoneLive)
			if err != nil {
				t.Fatal(err)
			}
			if got := reasons(report, a1); !strings.HasPrefix(got, test.reason) {
				t.Errorf("%s, want %s", got, test.reason)
			}
			if !strings.Contains(log.String(), test.logs) || test.logs == "" && log.Len() > 0 {
				t.Errorf("the log has %q, want %q", log.String(), test.logs)
			}
		})
	}
}
