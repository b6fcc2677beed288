// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// strangers are rules of other programs on the chains that CNI plugins use: of Docker, of
// podman (netavark), of an allocation on Nomad's own bridge network, and some that
// resemble those of the plugins.
const strangers = `*nat
:DOCKER - [0:0]
:NETAVARK-HOSTPORT-DNAT - [0:0]
:CNI-%[1]s - [0:0]
:CNI-DN-%[2]s - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
-A DOCKER ! -i docker0 -p tcp -m tcp --dport 7001 -j DNAT --to-destination 172.17.0.2:80
-A NETAVARK-HOSTPORT-DNAT -p tcp -m tcp --dport 7002 -j DNAT --to-destination 10.88.255.2:80
-A CNI-%[1]s -d 172.26.64.0/20 -m comment --comment "name: \"nomad\" id: \"8b3a\"" -j ACCEPT
-A POSTROUTING -s 172.26.64.5/32 -m comment --comment "name: \"nomad\" id: \"8b3a\"" -j CNI-%[1]s
-A CNI-DN-%[2]s -p tcp -m tcp --dport 7003 -j DNAT --to-destination 172.26.64.5:80
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"nomad\" id: \"8b3a\"" -m multiport --dports 7003 -j CNI-DN-%[2]s
-A POSTROUTING -s 10.88.77.7/32 -m comment --comment "name: \"web\" id: \"de ad\" \\ -j ACCEPT name: \"web\" id: \"x\"" -j ACCEPT
-A POSTROUTING -s 10.88.77.8/32 -m comment --comment "name: \"web\" id: \"dead\"" -j RETURN
COMMIT
*filter
-A CNI-FORWARD -s 172.26.64.5/32 -j ACCEPT
-A CNI-FORWARD -s 10.88.77.9/32 -j ACCEPT
COMMIT
`

func sha(text string, length int) string {
	return fmt.Sprintf("%x", sha512.Sum512([]byte(text)))[:length]
}

func restore(t testing.TB, rules string) {
	t.Helper()
	cmd := exec.Command("iptables-restore", "--noflush")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("iptables-restore: %v\n%s", err, out)
	}
}

// undo turns a transaction that adds chains and rules into one that removes
// them.
func undo(rules string) string {
	var text strings.Builder
	drop := ""
	for line := range strings.Lines(rules) {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, ":"), " ")
		switch {
		case strings.HasPrefix(line, ":"):
			text.WriteString(line) // this empties the chain
			drop += "-X " + name + "\n"
		case strings.HasPrefix(line, "COMMIT"):
			text.WriteString(drop + line)
			drop = ""
		case strings.HasPrefix(line, "-A") && strings.Contains(drop, "-X "+strings.Fields(line)[1]+"\n"):
		default:
			text.WriteString(strings.Replace(line, "-A", "-D", 1))
		}
	}
	return text.String()
}

// TestStrangersAreLeftAlone: with live allocations and rules of other programs,
// cleanup of dead allocations changes none of them.
func TestStrangersAreLeftAlone(t *testing.T) {
	h := newHost(t)
	theirs := fmt.Sprintf(strangers, sha("nomad8b3a", 24), sha("nomad8b3a", 21))
	restore(t, theirs)
	t.Cleanup(func() { restore(t, undo(theirs)) })
	const alive = 8
	crowd(alive, 4, func(i int) {
		h.must("attach", fmt.Sprintf("alive-%d", i), "--primary", "web", "--networks", "storage,peer", "--publish", fmt.Sprint(7100+i, ":80"))
	})
	for i := range alive {
		h.loseRecordsOfOdd(i)
	}
	before := sandbox.Snapshot(t)
	h.attach("dead", "--primary", "web", "--networks", "storage", "--publish", "7200:80")
	h.attach("unrecorded", "--primary", "web", "--networks", "storage", "--publish", "7201:80")
	h.loseCache("unrecorded")
	h.loseRecords("unrecorded")
	for _, id := range []string{"dead", "unrecorded"} {
		sandbox.Run(t, "ip", "netns", "del", id)
	}
	out := h.must("gc", "--dry-run")
	for _, word := range []string{"unrecorded on web", "dead on storage", "no allocation of that ID", "is missing"} {
		if !strings.Contains(out, word) {
			t.Errorf("the dry run does not say %q:\n%s", word, out)
		}
	}
	h.must("gc")
	sandbox.RequireSame(t, before)
	for i := range alive {
		h.must("detach", fmt.Sprintf("alive-%d", i))
	}
}

// loseRecordsOfOdd turns every other allocation into one of another runtime: only
// libcni's cached result and the namespace show it.
func (h *host) loseRecordsOfOdd(i int) {
	if i%2 == 1 {
		h.loseRecords(fmt.Sprintf("alive-%d", i))
	}
}

// leak puts n dead allocations of the network web on the host: rules, chains
// and leases in exactly the plugins' form.
func leak(t testing.TB, n int) {
	t.Helper()
	var rules bytes.Buffer
	rules.WriteString("*nat\n")
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("leak-%06d", i)
		fmt.Fprintf(&rules, ":CNI-%s - [0:0]\n:CNI-DN-%s - [0:0]\n", sha("web"+ids[i], 24), sha("web"+ids[i], 21))
	}
	for i, id := range ids {
		writeLeak(t, &rules, id, leakAddress(i), 1024+i)
	}
	rules.WriteString("COMMIT\n")
	restore(t, rules.String())
}

func leakAddress(i int) string { return fmt.Sprintf("10.88.%d.%d", 100+i/250, i%250+2) }

func writeLeak(t testing.TB, rules *bytes.Buffer, id, address string, port int) {
	t.Helper()
	comment := fmt.Sprintf(`name: \"web\" id: \"%s\"`, id)
	masquerade, ports := sha("web"+id, 24), sha("web"+id, 21)
	fmt.Fprintf(rules, `-A POSTROUTING -s %[1]s/32 -m comment --comment "%[2]s" -j CNI-%[3]s
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat %[2]s" -m multiport --dports %[5]d -j CNI-DN-%[4]s
-A CNI-%[3]s -d 10.88.0.0/16 -m comment --comment "%[2]s" -j ACCEPT
-A CNI-%[3]s ! -d 224.0.0.0/4 -m comment --comment "%[2]s" -j MASQUERADE
-A CNI-DN-%[4]s -s 10.88.0.0/16 -p tcp -m tcp --dport %[5]d -j CNI-HOSTPORT-SETMARK
-A CNI-DN-%[4]s -s 127.0.0.1/32 -p tcp -m tcp --dport %[5]d -j CNI-HOSTPORT-SETMARK
-A CNI-DN-%[4]s -p tcp -m tcp --dport %[5]d -j DNAT --to-destination %[1]s:80
`, address, comment, masquerade, ports, port)
	lease := filepath.Join("/var/lib/cni/networks/web", address)
	if err := os.WriteFile(lease, []byte(id+"\r\neth0"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestLeakIsInThePluginsForm holds writeLeak to the plugins.
func TestLeakIsInThePluginsForm(t *testing.T) {
	h := newHost(t)
	a := h.attach("form", "--primary", "web", "--publish", "1024:80")
	address := a.Addresses()[0].Addr().String()
	real := sandbox.Run(t, "iptables-save", "-t", "nat")
	h.must("detach", "form")
	var rules bytes.Buffer
	writeLeak(t, &rules, "form", address, 1024)
	for line := range strings.Lines(rules.String()) {
		if !strings.Contains(real, line) {
			t.Errorf("the plugins do not write\n%samong\n%s", line, real)
		}
	}
	if err := os.Remove("/var/lib/cni/networks/web/" + address); err != nil {
		t.Error(err)
	}
}

// TestManyLeaks: one gc removes thousands of leaks.
func TestManyLeaks(t *testing.T) {
	h := newHost(t)
	leak(t, 1000)
	out := h.must("gc")
	if want := "3000 leaked, 3000 removed by force"; !strings.Contains(out, want) {
		t.Errorf("gc does not say %q:\n%.2000s", want, out[max(0, len(out)-2000):])
	}
}

// TestLongGCKilled kills gc at many instants. The next gc removes the rest.
func TestLongGCKilled(t *testing.T) {
	h := newHost(t)
	for round := range 12 {
		leak(t, 150)
		cmd := h.command("gc")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(20+15*round) * time.Millisecond)
		_ = cmd.Process.Kill() // it may have exited
		_ = cmd.Wait()
		h.must("gc")
		sandbox.RequireSame(t, h.before)
		h.requireNoState()
		if t.Failed() {
			t.Fatalf("after round %d", round)
		}
	}
}

// TestLiveUnknown: while the live allocations are unknown, nothing is removed.
func TestLiveUnknown(t *testing.T) {
	h := newHost(t)
	leak(t, 2)
	before := sandbox.Snapshot(t)
	h.refuse(1, []string{"--live", "no such file", "nothing is removed"}, "gc", "--live", "@/run/no-such-list")
	h.refuse(1, []string{"has no IDs", "nothing is removed"}, "gc", "--live", "@-")
	h.refuse(2, []string{"../x", "nothing is removed"}, "gc", "--live", "../x")
	h.refuse(2, []string{"--live", "node-1, running", "nothing is removed"}, "gc", "--live", "node-1,running")
	sandbox.RequireSame(t, before)
	h.must("gc", "--live", "leak-000000,leak-000001")
	sandbox.RequireSame(t, before)
	list := filepath.Join(t.TempDir(), "live")
	sandbox.WriteFile(t, list, "leak-000001\nother\n")
	if o := h.allocnet("gc", "--live", "@"+list); o.code != 0 || !strings.Contains(o.stderr, "not known on this host (ids other)") {
		t.Errorf("exit code %d\n%s", o.code, o.stderr)
	}
	if out := sandbox.Run(t, "iptables-save"); strings.Contains(out, "leak-000000") || !strings.Contains(out, "leak-000001") {
		t.Errorf("want only the dead one gone:\n%s", out)
	}
	h.must("gc", "--network", "storage")
	if out := sandbox.Run(t, "iptables-save"); !strings.Contains(out, "leak-000001") {
		t.Errorf("gc of another network removed what is on web:\n%s", out)
	}
	h.must("gc", "--network", "web")
}

// TestLongGCWhileAttaching runs 200 rounds of set-ups and garbage collections in parallel.
func TestLongGCWhileAttaching(t *testing.T) {
	h := newHost(t)
	ctx := context.Background()
	e := h.engine(func(c *hook.Config) { c.Cleaner = &cleanup.Cleaner{} })
	store, err := state.Open(h.state)
	if err != nil {
		t.Fatal(err)
	}
	collector := &cleanup.Collector{Store: store, ConfDirs: []string{h.conf}}
	done := make(chan struct{})
	collected := make(chan error, 1)
	go func() {
		for {
			select {
			case <-done:
				collected <- nil
				return
			default:
			}
			if _, err := e.GC(ctx, hook.GCRequest{Leaks: hook.IgnoreLeaks}); err != nil {
				collected <- fmt.Errorf("GC: %w", err)
				return
			}
			report, err := collector.Collect(ctx, cleanup.Scope{}, cleanup.NoneLive)
			if err != nil {
				collected <- fmt.Errorf("collect: %w", err)
				return
			}
			if report.Removed > 0 {
				collected <- fmt.Errorf("collected %+v", report.Leaked())
				return
			}
		}
	}()
	var inUse [8]sync.Mutex // of the IDs: a slow round may be overtaken by the next with its ID
	crowd(200, 2, func(i int) {
		n := i % 4
		if i%2 == 0 {
			n = i % 8
		}
		inUse[n].Lock()
		defer inUse[n].Unlock()
		request := hook.Request{ // the IDs of dead ones are used again
			ID: fmt.Sprintf("round-%d", n), Primary: &selection.Element{Name: "web"}, Networks: []selection.Element{{Name: "vlan"}},
			Ports: []portmap.Port{{HostPort: 7300 + n, To: 80}},
		}
		if _, err := e.Setup(ctx, request); err != nil {
			t.Errorf("round %d: %v", i, err)
			return
		}
		if _, err := e.Check(ctx, request.ID); err != nil {
			t.Errorf("round %d: %v", i, err)
		}
		if err := e.Teardown(ctx, request.ID); err != nil {
			t.Errorf("round %d: %v", i, err)
		}
	})
	close(done)
	if err := <-collected; err != nil {
		t.Error(err)
	}
}

// TestGarbage: objects that cannot be parsed, or that another program owns, are reported
// and skipped. All others are removed.
func TestGarbage(t *testing.T) {
	h := newHost(t)
	leak(t, 3)
	held := sha("webleak-000001", 24)
	foreign := fmt.Sprintf("-A POSTROUTING -s 192.0.2.1/32 -j CNI-%s\n", held)
	restore(t, "*nat\n"+foreign+"COMMIT\n")
	garbage := map[string]string{
		"/var/lib/cni/networks/web/README":      "garbage",
		"/var/lib/cni/networks/web/10.88.9.9":   "",
		"/var/lib/cni/networks/web/10.88.9.10":  "../../etc\r\neth0",
		"/var/lib/cni/networks/web/10.88.9.11":  strings.Repeat("x", 1000),
		"/var/lib/cni/results/web-garbage-eth0": "{not json",
	}
	for path, text := range garbage {
		sandbox.WriteFile(t, path, text)
	}
	link := "/var/lib/cni/networks/web/10.88.9.12"
	if err := os.Symlink("/etc/passwd", link); err != nil {
		t.Fatal(err)
	}
	o := h.allocnet("gc")
	if o.code != 1 {
		t.Errorf("exit code %d, want 1: one chain is still there", o.code)
	}
	for _, word := range []string{"README", "10.88.9.10", "10.88.9.12", "web-garbage-eth0", "a rule of another program leads to it", "192.0.2.1"} {
		if !strings.Contains(o.stderr, word) {
			t.Errorf("gc does not report %q:\n%s", word, o.stderr)
		}
	}
	rules := sandbox.Run(t, "iptables-save")
	if strings.Contains(rules, "leak-000000") || strings.Contains(rules, "leak-000002") || !strings.Contains(rules, strings.TrimSpace(foreign)) {
		t.Errorf("want the other two gone, and the foreign rule kept:\n%s", rules)
	}
	restore(t, "*nat\n"+strings.Replace(foreign, "-A", "-D", 1)+"COMMIT\n")
	h.must("gc")
	for path := range garbage {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
	if err := os.Remove(link); err != nil {
		t.Error(err)
	}
}

// TestPendingIsTriedAgain: a pending teardown is shown, and retried after the next
// operation on the host.
func TestPendingIsTriedAgain(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	h.fake("fake", fakecni.Script{Verbs: map[string]fakecni.Behaviour{
		"DEL": {Code: 7, Msg: "cannot", FailTimes: 1, Counter: dir + "/counter"},
	}})
	h.attach("p1", "--primary", "fake")
	h.refuse(1, []string{"cannot", "only the plugin fakecni knows what it left"}, "detach", "p1")
	if out := h.must("status"); !strings.Contains(out, "pending") || !strings.Contains(out, "cannot") {
		t.Errorf("status shows\n%s", out)
	}
	h.refuse(1, nil, "doctor")
	h.attach("p2", "--primary", "storage")
	h.awaitGone("p1")
	h.must("detach", "p2")
}

// awaitGone waits until an allocation is not on record.
func (h *host) awaitGone(id string) {
	h.t.Helper()
	sandbox.Eventually(h.t, id+" is not on record", func() bool { return h.allocnet("status", id).code == 3 })
	var left []string
	sandbox.Eventually(h.t, "the process that did it, which has its lock until the end, ends", func() bool {
		left, _ = filepath.Glob(h.state + "/locks/*")
		return len(left) == 0
	}, func() string { return strings.Join(left, ", ") })
}

// TestPendingDelaysNoCaller: an ADD returns while the plugin of another allocation's
// pending teardown hangs. Only one process retries it.
func TestPendingDelaysNoCaller(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	h.fake("fake", fakecni.Script{Log: dir + "/calls", Verbs: map[string]fakecni.Behaviour{
		"DEL": {Mark: dir + "/begun", Await: dir + "/go"},
	}})
	h.attach("p1", "--primary", "fake")
	h.refuse(1, []string{"did not answer DEL"}, "detach", "p1", "--call-timeout", "500ms")
	if err := os.Remove(dir + "/begun"); err != nil {
		t.Fatal(err)
	}
	r := h.runtime("1.0.0", `"primary": "storage"`)
	first, second := h.container("c1"), h.container("c2")
	r.add(first)
	await(t, dir+"/begun")
	r.add(second)
	h.attach("p2", "--primary", "storage")
	r.del(first)
	r.del(second)
	h.must("detach", "p2")
	if calls := read(t, dir+"/calls"); strings.Count(calls, "DEL") != 2 {
		t.Errorf("want one DEL that was tried again and is blocked still:\n%s", calls)
	}
	sandbox.WriteFile(t, dir+"/go", "")
	h.awaitGone("p1")
	h.awaitProcesses()
}

// TestForget: cleanup --forget deletes the record of an allocation that cannot be
// removed.
func TestForget(t *testing.T) {
	h := newHost(t)
	h.fake("fake", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"DEL": {Code: 7, Msg: "never"}}})
	h.attach("p3", "--primary", "fake")
	h.refuse(2, []string{"p3 is not dead"}, "cleanup", "p3")
	h.refuse(1, []string{"never"}, "detach", "p3")
	h.refuse(1, []string{"never"}, "cleanup", "p3")
	h.must("cleanup", "p3", "--forget")
	h.refuse(3, nil, "status", "p3")
	sandbox.Run(t, "ip", "netns", "del", "p3")
	h.must("cleanup", "p3") // of what was forgotten with the record
}

// TestReboot: records of an earlier boot are torn down before anything new is
// attached, so their addresses come back.
func TestReboot(t *testing.T) {
	h := newHost(t)
	for _, id := range []string{"old-1", "old-2"} {
		h.attach(id, "--primary", "web", "--networks", "storage")
	}
	store, err := state.Open(h.state)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"old-1", "old-2"} {
		reboot(t, store, id)
	}
	if err := store.SetCleanedBoot("the boot before"); err != nil {
		t.Fatal(err)
	}
	h.attach("new", "--primary", "web")
	for _, id := range []string{"old-1", "old-2"} { // a busy machine removes them after the set-up
		h.awaitGone(id)
	}
	var list []hook.Allocation
	if err := json.Unmarshal([]byte(h.must("status", "--json")), &list); err != nil || len(list) != 1 || list[0].ID != "new" {
		t.Errorf("on record are %+v, %v, want only the new one", list, err)
	}
	h.must("detach", "new")
}

// reboot turns an allocation into one of an earlier boot.
func reboot(t *testing.T, store *state.Store, id string) {
	t.Helper()
	lock, err := store.Lock(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	record, err := lock.Load()
	if err != nil {
		t.Fatal(err)
	}
	if err := netns.Remove(record.Allocation.Netns); err != nil {
		t.Fatal(err)
	}
	record.Allocation.BootID = "the boot before"
	if err := lock.Begin(record.Allocation, record.Attachments); err != nil {
		t.Fatal(err)
	}
}

// TestPublishedUDPIsForgotten: without deletion of its tracked connections, the kernel
// would send packets for a published UDP port to the old address.
func TestPublishedUDPIsForgotten(t *testing.T) {
	h := newHost(t)
	h.attach("udp", "--primary", "web", "--publish", "7400:53/udp")
	conn, err := net.Dial("udp", "10.88.0.1:7400")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("anybody?")); err != nil {
		t.Fatal(err)
	}
	flows := func() string {
		out, _ := exec.Command("conntrack", "-L", "-p", "udp", "--orig-port-dst", "7400").Output() // fails when there are none
		return string(out)
	}
	if !strings.Contains(flows(), "dport=7400") {
		t.Fatal("the kernel remembers no flow: this test shows nothing")
	}
	sandbox.Run(t, "ip", "netns", "del", "udp")
	h.must("detach", "udp")
	if left := flows(); left != "" {
		t.Errorf("the kernel remembers\n%s", left)
	}
}

// TestDoctor lists each problem with the command that fixes it.
func TestDoctor(t *testing.T) {
	h := newHost(t)
	h.must("doctor")
	leak(t, 2)
	sandbox.WriteFile(t, h.conf+"/90-twin.conflist", `{"cniVersion": "1.0.0", "name": "twin", "plugins": [
		{"type": "bridge", "bridge": "web0", "ipam": {"type": "host-local", "subnet": "10.88.4.0/30"}}, {"type": "nowhere"}]}`)
	sandbox.WriteFile(t, h.conf+"/91-broken.conf", "{")
	h.attach("full", "--networks", "storage")
	o := h.allocnet("doctor")
	if o.code != 1 {
		t.Errorf("exit code %d, want 1", o.code)
	}
	for _, word := range []string{
		`plugin "nowhere" is not installed`, "91-broken.conf:1:1", "has the bridge web0", "10.88.4.0/30", "overlaps 10.88.0.0/16",
		"2 lease, 2 masquerade, 2 ports", "fix: allocnet gc", "fix: allocnet cleanup leak-000001", "ERROR",
	} {
		if !strings.Contains(o.stdout, word) {
			t.Errorf("doctor does not say %q:\n%s", word, o.stdout)
		}
	}
	for _, name := range []string{"/90-twin.conflist", "/91-broken.conf"} {
		if err := os.Remove(h.conf + name); err != nil {
			t.Fatal(err)
		}
	}
	h.must("detach", "full")
	h.must("gc")
	h.must("doctor")
}

// TestCleanupRefusesTheLiving: an allocation with a record and a namespace is live, even
// if nothing on the host shows its owner. Without a record, libcni's cached result shows
// it.
func TestCleanupRefusesTheLiving(t *testing.T) {
	h := newHost(t)
	h.attach("c5", "--networks", `[{"name": "fixed", "ips": ["10.92.0.9/16"]}]`)
	results, err := filepath.Glob("/var/lib/cni/results/*c5*")
	if err != nil || len(results) != 1 {
		t.Fatalf("cached results %v, %v", results, err)
	}
	cached := sandbox.Run(t, "cat", results[0])
	if err := os.Remove(results[0]); err != nil {
		t.Fatal(err)
	}
	h.refuse(2, []string{"c5 is not dead"}, "cleanup", "c5")
	h.refuse(2, []string{"c5 is not dead"}, "cleanup", "c5", "--forget")
	h.must("check", "c5")

	sandbox.WriteFile(t, results[0], cached)
	if err := os.RemoveAll(h.state + "/allocations/c5"); err != nil {
		t.Fatal(err)
	}
	h.refuse(2, []string{"c5 is not dead"}, "cleanup", "c5")
	if shown := sandbox.Run(t, "ip", "-n", "c5", "-o", "link"); !strings.Contains(shown, "net") {
		t.Errorf("in the namespace: %s", shown)
	}
	h.must("detach", "c5")
}

// stranger attaches a container of another runtime to a network of the host, with a published
// port. The runtime keeps its results elsewhere, and the lease is older than any grace period.
func (h *host) stranger(network, path string, port int) {
	h.t.Helper()
	cmd := exec.Command(filepath.Join(sandbox.PluginDir(), "cnitool"), "add", network, path)
	cmd.Env = append(os.Environ(), "NETCONFPATH="+h.conf, "CNI_PATH="+sandbox.PluginDir(),
		fmt.Sprintf(`CAP_ARGS={"portMappings": [{"hostPort": %d, "containerPort": 80, "protocol": "tcp"}]}`, port))
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("cnitool: %v\n%s", err, out)
	}
	h.loseCache("cnitool")
}

// TestLivingStrangers: gc takes nothing of the living containers of another runtime, which only
// their addresses show, wherever their namespaces are mounted: also what names no address, such
// as bandwidth's device and tuning's file. Once they are dead it takes all of it.
func TestLivingStrangers(t *testing.T) {
	for _, backend := range []string{"iptables", "nftables"} {
		t.Run(backend, func(t *testing.T) {
			h := newHost(t)
			sandbox.WriteFile(t, h.conf+"/70-shared.conflist", fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "shared", "plugins": [
				{"type": "bridge", "bridge": "shared0", "isGateway": true, "ipMasq": true, "ipMasqBackend": %[1]q, "ipam": {"type": "host-local", "dataDir": "/run/shared", "subnet": "10.94.0.0/24"}},
				{"type": "bandwidth", "ingressRate": 10000000, "ingressBurst": 1000000, "egressRate": 10000000, "egressBurst": 1000000},
				{"type": "tuning", "mtu": 1400}, {"type": "firewall"}, {"type": "portmap", "backend": %[1]q, "snat": true, "capabilities": {"portMappings": true}}]}`, backend))
			h.attach("warm", "--primary", "shared", "--publish", "7500:80")
			h.must("detach", "warm")
			h.before = sandbox.Snapshot(t)
			elsewhere := filepath.Join(t.TempDir(), "ns")
			sandbox.Run(t, "ip", "netns", "add", "stranger-1")
			sandbox.Run(t, "ip", "netns", "add", "stranger-2")
			sandbox.WriteFile(t, elsewhere, "")
			sandbox.Run(t, "mount", "--bind", "/run/netns/stranger-2", elsewhere)
			sandbox.Run(t, "ip", "netns", "delete", "stranger-2")
			t.Cleanup(func() { _ = netns.Remove(elsewhere); _ = netns.Remove("/run/netns/stranger-1") })
			h.stranger("shared", "/run/netns/stranger-1", 7501)
			h.stranger("shared", elsewhere, 7502)
			before := sandbox.Snapshot(t)
			h.must("gc")
			h.must("gc", "--network", "shared")
			sandbox.RequireSame(t, before)
			sandbox.Run(t, "umount", elsewhere)
			sandbox.Run(t, "ip", "netns", "delete", "stranger-1")
			h.must("gc")
			sandbox.RequireSame(t, h.before)
		})
	}
}

// TestOrphans: what a dead allocation has left on a network whose configuration is gone is listed,
// and cleanup of the allocation removes it.
func TestOrphans(t *testing.T) {
	h := newHost(t)
	conflist := h.conf + "/71-former.conflist"
	sandbox.WriteFile(t, conflist, `{"cniVersion": "1.0.0", "name": "former", "plugins": [
		{"type": "bridge", "bridge": "former0", "isGateway": true, "ipam": {"type": "host-local", "subnet": "10.93.0.0/24"}},
		{"type": "portmap", "backend": "nftables", "capabilities": {"portMappings": true}}]}`)
	h.attach("warm", "--primary", "former", "--publish", "7510:80")
	h.must("detach", "warm")
	h.before = sandbox.Snapshot(t)
	h.attach("orphan", "--primary", "former", "--publish", "7511:80")
	h.loseRecords("orphan")
	h.loseCache("orphan")
	if err := os.Remove(conflist); err != nil {
		t.Fatal(err)
	}
	h.refuse(2, []string{"orphan is not dead"}, "cleanup", "orphan")
	sandbox.Run(t, "ip", "netns", "delete", "orphan")
	if out := h.must("gc"); !strings.Contains(out, "NOT REMOVED") || !strings.Contains(out, "allocnet cleanup orphan") || !strings.Contains(out, "/var/lib/cni/networks/former/10.93.0.") {
		t.Errorf("gc does not list what is left:\n%s", out)
	}
	h.must("cleanup", "orphan")
	sandbox.RequireSame(t, h.before)
}

// TestGCOfOwnConflist: gc does not have allocnet-cni collect the allocations that it has on record
// and that live, when the result of its runtime is lost.
func TestGCOfOwnConflist(t *testing.T) {
	h := newHost(t)
	r := h.runtime("1.1.0", `"primary": "web", "networks": "storage"`)
	sandbox.WriteFile(t, h.conf+"/80-multi.conflist", string(r.list.Bytes))
	c := h.container("owned")
	r.add(c)
	removeCache(t, "multi-owned-eth0")
	before := sandbox.Snapshot(t)
	h.must("gc")
	sandbox.RequireSame(t, before)
	h.must("check", "owned")
	if err := os.Remove(h.conf + "/80-multi.conflist"); err != nil {
		t.Fatal(err)
	}
	r.del(c)
}
