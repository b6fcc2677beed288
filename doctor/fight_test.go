// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/event"
	"github.com/allocnet/allocnet/hook"
)

// TestFights: an attachment that is repaired again and again is a warning with both sides: with
// the process that has removed it, if that is known. One that was repaired long ago, or seldom, is not.
func TestFights(t *testing.T) {
	now := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	repair := func(allocation, iface, caller string, ago time.Duration, missing ...string) event.Event {
		return event.Event{Time: now.Add(-ago), Allocation: allocation, Interface: iface, Networks: []string{"web"}, Caller: caller, Missing: missing}
	}
	repairs := []event.Event{
		repair("old", "eth0", "agent", 11*time.Minute, "a rule"),
		repair("old", "eth0", "agent", 9*time.Minute, "a rule"),
		repair("old", "eth0", "agent", 8*time.Minute, "a rule"),
		repair("fought", "eth0", "agent", 7*time.Minute+time.Second, "a route", "chain X"),
		repair("fought", "eth0", "allocnet repair", 2*time.Minute, "chain X"),
		repair("fought", "net1", "agent", time.Minute, "chain Y"),
		repair("fought", "eth0", "agent", time.Minute, "chain X"),
		repair("various", "eth0", "agent", time.Second, "1"),
		repair("various", "eth0", "agent", time.Second, "2"),
		repair("various", "eth0", "agent", time.Second, "3"),
	}
	r := &Report{}
	fightFindings(r, repairs, now, []string{"dockerd", "firewalld"})
	const fix = " => stop that program, or exclude these from it; when it happened: allocnet events --allocation "
	const others = "; of those that do such things, here run dockerd, firewalld"
	requireFindings(t, r,
		"warning fought: eth0 on web was repaired 3 times in the last 8 minutes, by agent, allocnet repair: another program removes chain X"+others+fix+"fought",
		"warning various: eth0 on web was repaired 3 times in the last minute, by agent: another program removes 1, 2, 3"+others+fix+"various",
	)
	for i, pid := range []int{12, 13, 14} {
		repairs[7+i].RemovedBy = []hook.Remover{{Name: "iptables", PID: pid, Parent: "dockerd"}, {Name: "nft", PID: 1}}[:1+i%2]
	}
	r = &Report{}
	fightFindings(r, repairs[7:], now, []string{"firewalld"})
	requireFindings(t, r,
		"warning various: eth0 on web was repaired 3 times in the last minute, by agent: another program removes 1, 2, 3; rules of its chains removed by iptables (PID 14), started by dockerd"+fix+"various",
	)
	r = &Report{}
	fightFindings(r, repairs[3:7], now, nil)
	if len(r.Findings) != 1 || !strings.HasSuffix(r.Findings[0].Problem, "removes chain X") {
		t.Errorf("%+v, want no program", r.Findings)
	}
}

// TestRunning: programs are found by the names that the kernel has.
func TestRunning(t *testing.T) {
	proc := t.TempDir()
	for pid, name := range map[string]string{"1": "systemd", "12": "firewalld", "13": "dockerd", "14": "dockerd", "self": "kube-proxy"} {
		if err := os.Mkdir(filepath.Join(proc, pid), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, pid, "comm"), []byte(name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := running(proc); !slices.Equal(got, []string{"dockerd", "firewalld"}) {
		t.Errorf("%q run", got)
	}
}
