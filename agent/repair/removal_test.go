// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/hook"
)

// change is a message of nftables in a family, with attributes by type.
func change(kind uint16, family byte, attributes map[uint16][]byte) syscall.NetlinkMessage {
	m := message(unix.NFNL_SUBSYS_NFTABLES<<8 | kind)
	m.Data = []byte{family, unix.NFNETLINK_V0, 0, 0}
	for kind, value := range attributes {
		m.Data = append(m.Data, nl.NewRtAttr(int(kind), value).Serialize()...)
	}
	return m
}

// rule is the message of a rule that is removed.
func rule(family byte, table, chain string) syscall.NetlinkMessage {
	return change(unix.NFT_MSG_DELRULE, family, map[uint16][]byte{unix.NFTA_RULE_TABLE: nl.ZeroTerminated(table), unix.NFTA_RULE_CHAIN: nl.ZeroTerminated(chain)})
}

// generation is the message that ends a transaction of a thread.
func generation(thread uint32, name string) syscall.NetlinkMessage {
	return change(unix.NFT_MSG_NEWGEN, unix.NFPROTO_UNSPEC, map[uint16][]byte{
		unix.NFTA_GEN_ID: {0, 0, 0, 1}, unix.NFTA_GEN_PROC_PID: binary.BigEndian.AppendUint32(nil, thread), unix.NFTA_GEN_PROC_NAME: nl.ZeroTerminated(name),
	})
}

// TestRemovers: a process is told for what its own transaction has removed, in each of the words of
// the engine, and not for what it has added, or what others have removed.
func TestRemovers(t *testing.T) {
	whole := change(unix.NFT_MSG_DELCHAIN, unix.NFPROTO_INET, map[uint16][]byte{unix.NFTA_CHAIN_TABLE: nl.ZeroTerminated("cni"), unix.NFTA_CHAIN_NAME: nl.ZeroTerminated("post")})
	added := rule(unix.NFPROTO_IPV4, "nat", "CNI-X")
	added.Header.Type = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWRULE
	by := generation(12, "nft")
	for name, test := range map[string]struct {
		seen    []syscall.NetlinkMessage
		missing string
		want    string
	}{
		"rule of iptables":     {[]syscall.NetlinkMessage{rule(unix.NFPROTO_IPV4, "nat", "CNI-X"), by}, "rule in chain CNI-X of table nat of iptables: -d 10.0.0.1/32", "[nft (PID 12)]"},
		"chain of ip6tables":   {[]syscall.NetlinkMessage{rule(unix.NFPROTO_IPV6, "nat", "CNI-X"), by}, "chain CNI-X of table nat of ip6tables", "[nft (PID 12)]"},
		"rules of nftables":    {[]syscall.NetlinkMessage{rule(unix.NFPROTO_IPV4, "nat", "X"), by}, "nftables: 2 rules in chain X of table ip nat", "[nft (PID 12)]"},
		"whole chain":          {[]syscall.NetlinkMessage{whole, by}, "nftables: 1 rule in chain post of table inet cni", "[nft (PID 12)]"},
		"another family":       {[]syscall.NetlinkMessage{rule(unix.NFPROTO_IPV6, "nat", "CNI-X"), by}, "chain CNI-X of table nat of iptables", "[]"},
		"another chain":        {[]syscall.NetlinkMessage{rule(unix.NFPROTO_IPV4, "nat", "CNI-XY"), by}, "chain CNI-X of table nat of iptables", "[]"},
		"no rule":              {[]syscall.NetlinkMessage{rule(unix.NFPROTO_IPV4, "", ""), by}, "bridge web0", "[]"},
		"added":                {[]syscall.NetlinkMessage{added, by}, "chain CNI-X of table nat of iptables", "[]"},
		"another one's":        {[]syscall.NetlinkMessage{rule(unix.NFPROTO_IPV4, "nat", "CNI-X"), generation(13, "own"), by}, "chain CNI-X of table nat of iptables", "[]"},
		"two":                  {[]syscall.NetlinkMessage{rule(unix.NFPROTO_IPV4, "nat", "CNI-X"), by, rule(unix.NFPROTO_IPV4, "nat", "CNI-X"), generation(14, "iptables")}, "chain CNI-X of table nat of iptables", "[iptables (PID 14) nft (PID 12)]"},
		"the same again":       {[]syscall.NetlinkMessage{rule(unix.NFPROTO_IPV4, "nat", "CNI-X"), generation(11, "nft"), rule(unix.NFPROTO_IPV4, "nat", "CNI-X"), by}, "chain CNI-X of table nat of iptables", "[nft (PID 12)]"},
		"message cut short":    {[]syscall.NetlinkMessage{rule(unix.NFPROTO_IPV4, "nat", "CNI-X"), message(by.Header.Type)}, "chain CNI-X of table nat of iptables", "[]"},
		"without its process":  {[]syscall.NetlinkMessage{rule(unix.NFPROTO_IPV4, "nat", "CNI-X"), change(unix.NFT_MSG_NEWGEN, 0, nil)}, "chain CNI-X of table nat of iptables", "[]"},
		"removal cut short":    {[]syscall.NetlinkMessage{message(whole.Header.Type), by}, "chain  of table  of ", "[]"},
		"table, not its rules": {[]syscall.NetlinkMessage{change(unix.NFT_MSG_DELTABLE, unix.NFPROTO_IPV4, nil), by}, "chain  of table ip ", "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			var known removals
			w := &watch{removed: func(r Removal) {
				if r.By.Name != "" {
					known.add(r, time.Unix(1, 0))
				}
			}}
			l := w.rules(func(thread int, name string) (hook.Remover, bool) {
				return hook.Remover{Name: name, PID: thread}, name != "own"
			})
			for _, m := range test.seen {
				l.Seen(m)
			}
			if got := fmt.Sprint(known.of([]string{"address of eth0", test.missing}, time.Unix(1, 0))); got != test.want {
				t.Errorf("removed by %s, want %s", got, test.want)
			}
			if got := known.of([]string{test.missing}, time.Unix(2, 0)); len(got) > 0 {
				t.Errorf("%v has removed before then", got)
			}
		})
	}
}

// TestLostTransaction: the process of a transaction is not told for another one's, of which the end was
// lost.
func TestLostTransaction(t *testing.T) {
	w := &watch{removed: func(r Removal) {
		if r.By.Name != "" {
			t.Errorf("%+v", r)
		}
	}}
	l := w.rules(func(int, string) (hook.Remover, bool) { return hook.Remover{Name: "nft"}, true })
	l.Seen(rule(unix.NFPROTO_IPV4, "nat", "CNI-X"))
	l.Lost()
	l.Seen(generation(12, "nft"))
}

// TestRemovalBounds: a program that removes much, or often, takes a bounded amount of memory.
func TestRemovalBounds(t *testing.T) {
	var one transaction
	for i := range 2 * maxChains {
		one.add(rule(unix.NFPROTO_IPV4, "nat", strconv.Itoa(i)))
	}
	if len(one.chains) > maxChains+2 {
		t.Errorf("%d chains", len(one.chains))
	}
	var many removals
	for i := range 3 * maxChains {
		many.add(Removal{By: hook.Remover{Name: strconv.Itoa(i)}, chains: map[string]bool{"c": true, strconv.Itoa(i): true}}, time.Unix(int64(i), 0))
	}
	if got := many.of([]string{"chain c"}, time.Time{}); len(many.newer)+len(many.older) > 3*maxChains || len(got) != maxRemovers || got[0].Name != strconv.Itoa(3*maxChains-1) {
		t.Errorf("%d and %d chains, removed by %v", len(many.newer), len(many.older), got)
	}
}

// TestManyTransactions: who has removed rules stays known, however many of other chains are removed then.
func TestManyTransactions(t *testing.T) {
	var known removals
	known.add(Removal{By: hook.Remover{Name: "nft"}, chains: map[string]bool{"one": true}}, time.Unix(1, 0))
	for i := range maxChains {
		known.add(Removal{By: hook.Remover{Name: "iptables"}, chains: map[string]bool{strconv.Itoa(i): true}}, time.Unix(2, 0))
	}
	if got := fmt.Sprint(known.of([]string{"chain one: a rule", "chain 0"}, time.Unix(1, 0))); got != "[iptables (PID 0) nft (PID 0)]" {
		t.Errorf("removed by %s", got)
	}
}

// TestRemovedBy: a repair names the process of the removal, not that of an earlier one; also if it was
// made after a pause, during which other allocations were looked at.
func TestRemovedBy(t *testing.T) {
	run(t, hook.RepairRules, func(h *host, r *Repairer) {
		remove := func(pid int) {
			h.damageSilently("a")
			h.events <- Removal{By: hook.Remover{Name: "nft", PID: pid}, chains: map[string]bool{"one of table nat of iptables": true}}
		}
		for pid := range promptRepairs {
			sleep(time.Second / 2)
			remove(pid + 1)
		}
		sleep(firstPause / 4)
		remove(promptRepairs + 1) // it waits
		sleep(firstPause / 4)
		h.damage("b") // is looked at
		sleep(2 * firstPause)
		h.damage("a", "b") // by another one
		sleep(5 * firstPause)
		if s := r.Status().Waiting; len(s) != 1 || s[0].Allocation != "a" || fmt.Sprint(s[0].RemovedBy) != "[nft (PID 6)]" {
			t.Errorf("the status has %v", s)
		}
		got := fmt.Sprint(h.removedBy)
		const want = "map[a:[[nft (PID 1)] [nft (PID 2)] [nft (PID 3)] [nft (PID 4)] [nft (PID 5)] [nft (PID 6)] []] b:[[] []]]"
		if got != want {
			t.Errorf("removed by %s, want %s", got, want)
		}
	})
}

// TestRemovedMeanwhile: who removes something while a round runs, which finds it or not, is known to the
// next one.
func TestRemovedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &slowEngine{host: newHost()}
		r := New(Config{Engine: engine, Observer: engine, Logger: hclog.NewNullLogger()}, hook.RepairRules)
		engine.meanwhile = func() {
			sleep(time.Second)
			r.hear(Removal{By: hook.Remover{Name: "nft", PID: 1}, chains: map[string]bool{"one of table nat of iptables": true}})
			sleep(time.Second)
		}
		r.round(t.Context())
		engine.damageSilently("a")
		r.round(t.Context())
		if got := fmt.Sprint(engine.removedBy["a"]); got != "[[nft (PID 1)]]" {
			t.Errorf("removed by %s", got)
		}
	})
}

// slowEngine is one whose first round lasts.
type slowEngine struct {
	*host

	meanwhile func()
}

func (s *slowEngine) RepairAttachments(ctx context.Context, r hook.RepairRequest) ([]hook.Drift, error) {
	drifts, err := s.host.RepairAttachments(ctx, r)
	if s.meanwhile != nil {
		s.meanwhile()
		s.meanwhile = nil
	}
	return drifts, err
}

// TestRemovedByReport: who has removed what is missing is known as long as it is.
func TestRemovedByReport(t *testing.T) {
	run(t, hook.RepairReport, func(h *host, r *Repairer) {
		h.damageSilently("a")
		h.events <- Removal{By: hook.Remover{Name: "nft", PID: 1}, chains: map[string]bool{"one of table nat of iptables": true}}
		sleep(3 * interval)
		if s := r.Status(); len(s.Damaged) != 1 || fmt.Sprint(s.Damaged[0].RemovedBy) != "[nft (PID 1)]" {
			t.Errorf("%+v", s)
		}
	})
}

// process writes what a directory /proc has of a process.
func process(t *testing.T, proc string, pid int, name string, parent int) {
	t.Helper()
	dir := filepath.Join(proc, strconv.Itoa(pid))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	stat := fmt.Sprintf("%d (%s) Z %d%s\n", pid, name, parent, strings.Repeat(" 0", 48))
	if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestProcesses: a process is told with its parent, and names cannot do harm; allocnet's own are not
// told. Of a process that has ended, the name tells.
func TestProcesses(t *testing.T) {
	p := processes{t.TempDir(), 100}
	for _, one := range []struct {
		pid    int
		name   string
		parent int
	}{
		{1, "systemd", 0}, {100, "allocnet", 1}, {101, "portmap", 100}, {102, "iptables", 101}, {103, "iptables-restor", 100},
		{200, "docker\x1b[2J", 1}, {201, "iptables", 200}, {202, "iptables-restor", 200}, {203, "firewalld", 1}, {204, "other", 1}, {205, "dockerd", 1}, {206, "dockerd", 1},
	} {
		process(t, p.proc, one.pid, one.name, one.parent)
	}
	if err := os.WriteFile(filepath.Join(p.proc, "206", "status"), []byte("Name:\tdockerd\nTgid:\t205\nPid:\t206\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		thread int
		name   string
		want   string // empty: it is not told
	}{
		{102, "iptables", ""},
		{103, "iptables-restor", ""},
		{100, "allocnet", ""},
		{300, "allocnet-cni", ""},
		{300, "iptables-restor", ""},
		{204, "ip6tables-resto", ""}, // the number is another one's
		{300, "", ""},
		{201, "iptables", `iptables (PID 201), started by docker\x1b[2J`},
		{202, "iptables-restor", `iptables-restor (PID 202), started by docker\x1b[2J`},
		{203, "firewalld", "firewalld (PID 203)"},
		{300, "nft", "nft (PID 300)"},
		{300, "nftables-fix", "nftables-fix (PID 300)"},
		{206, "dockerd", "dockerd (PID 205)"}, // a thread of it
		{300, "a\nb\xff\x1b", "a; b\ufffd\\x1b (PID 300)"},
	} {
		by, told := p.remover(test.thread, test.name)
		if told != (test.want != "") || told && by.String() != test.want {
			t.Errorf("%d %q: %s, %t, want %q", test.thread, test.name, by, told, test.want)
		}
	}
	if by, told := (processes{filepath.Join(p.proc, "none"), 100}).remover(201, "nft"); !told || by.Parent != "" {
		t.Errorf("without /proc: %s, %t", by, told)
	}
}

// TestUnion: each process is told once.
func TestUnion(t *testing.T) {
	a, b := hook.Remover{Name: "a"}, hook.Remover{Name: "b"}
	if got := union([]hook.Remover{a}, []hook.Remover{b, a}); !slices.Equal(got, []hook.Remover{a, b}) {
		t.Errorf("%v", got)
	}
}
