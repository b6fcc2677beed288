// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// floatingHost is a host on the link lan0 of the client, with the example of docs/ipam.md. The store is in files that the hosts share.
// Its own addresses end with a number.
func floatingHost(t *testing.T, name, store string, number int) *host {
	t.Helper()
	page, err := os.ReadFile("../../docs/ipam.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)<!-- tested: published address -->\n```json\n(.*?)```").FindSubmatch(page)
	if example == nil {
		t.Fatal("docs/ipam.md has no example of a published address")
	}
	h := &host{pool: newPool(t, nil), conf: t.TempDir(), records: t.TempDir(), executor: hook.ExecutorAuto, namespace: name}
	if err := os.Mkdir(h.state+"/ipam", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(store, h.state+"/ipam/store"); err != nil {
		t.Fatal(err)
	}
	conf := strings.NewReplacer(`"pool": "public"`, fmt.Sprintf(`"pool": "p", "stateDir": %q, "dataDir": %q, "configDir": %q`, h.state, h.data, h.state+"/none"),
		`"type": "host-local"`, fmt.Sprintf(`"type": "host-local", "dataDir": %q`, t.TempDir())).Replace(string(example[1]))
	sandbox.WriteFile(t, h.conf+"/web.conflist", conf)
	namespace(t, name)
	for _, command := range []string{
		"link add port-" + name + " type veth peer name eth0 netns " + name, "link set port-" + name + " master lan0 up", "-n " + name + " link set lo up", "-n " + name + " link set eth0 up",
		fmt.Sprintf("-n %s address add 192.0.2.%d/24 dev eth0", name, number), fmt.Sprintf("-n %s address add 2001:db8:2::%d/64 dev eth0 nodad", name, number),
	} {
		sandbox.Run(t, append([]string{"ip"}, strings.Fields(command)...)...)
	}
	t.Cleanup(func() { sandbox.Run(t, "ip", "link", "delete", "port-"+name) }) // the kernel takes its time for what goes with a namespace
	return h
}

// published returns those of the published addresses that the host's interface has.
func (h *host) published() (found []string) {
	h.Helper()
	present := sandbox.Run(h, "ip", "-n", h.namespace, "-o", "address", "show", "dev", "eth0")
	for _, address := range []string{"192.0.2.50/32", "2001:db8:2::50/128"} {
		if strings.Contains(present, address) {
			found = append(found, address)
		}
	}
	return found
}

// answer serves a name in the namespace of an allocation.
func answer(t *testing.T, id string) {
	t.Helper()
	var listener net.Listener
	err := within(id, func() (err error) {
		listener, err = net.Listen("tcp", ":80")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, id) })}
	go server.Serve(listener)
	t.Cleanup(func() { _ = server.Close() })
}

// answers tells whether both published addresses lead the client to an allocation.
func answers(id string) bool {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, address := range []string{"192.0.2.50", "[2001:db8:2::50]"} {
		response, err := client.Get("http://" + address + ":8080")
		if err != nil {
			return false
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if string(body) != id {
			return false
		}
	}
	return true
}

// TestPublishAddress: a client of the link reaches the ports of an allocation at the addresses of its job, on whichever host it runs, and
// no two hosts have them.
func TestPublishAddress(t *testing.T) {
	sandbox.Run(t, "sh", "-ec", "ip link add lan0 type bridge; ip link set lan0 up; ip address add 192.0.2.1/24 dev lan0; ip address add 2001:db8:2::1/64 dev lan0 nodad")
	t.Cleanup(func() { sandbox.Run(t, "ip", "link", "delete", "lan0") })
	store := t.TempDir()
	one, two := floatingHost(t, "one", store, 11), floatingHost(t, "two", store, 12)
	one.must("attach", "web-1", "--primary", "web", "--publish", "8080:80")
	answer(t, "web-1")
	sandbox.Eventually(t, "web-1 answers", func() bool { return answers("web-1") })
	one.must("check", "web-1")
	if shown := two.must("ipam", "show"); strings.Count(shown, "published") != 2 {
		t.Errorf("two addresses are published, and the other host shows\n%s", shown)
	}
	one.requireRepaired("web-1")

	waiting := two.program("attach", "web-2", "--primary", "web", "--publish", "8080:80")
	var log strings.Builder
	waiting.Stdout, waiting.Stderr = &log, &log
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	sandbox.Eventually(t, "the second host waits for the first", func() bool {
		_, err := os.Stat(two.state + "/ipam/pools/p/store.lock")
		return err == nil
	})
	if got := two.published(); len(got) > 0 || !answers("web-1") {
		t.Errorf("while the first host has the addresses, the second one has %v", got)
	}
	one.must("detach", "web-1")
	if got := one.published(); len(got) > 0 {
		t.Errorf("the first host still has %v", got)
	}
	if err := waiting.Wait(); err != nil {
		t.Fatalf("the second host: %v: %s", err, log.String())
	}
	answer(t, "web-2")
	sandbox.Eventually(t, "web-2 answers", func() bool { return answers("web-2") })
	sandbox.Run(t, "ip", "netns", "delete", "web-2") // the interface of the host is there still
	two.must("detach", "web-2")
	if got := two.published(); len(got) > 0 {
		t.Errorf("the second host still has %v", got)
	}
	one.requireForeignKept()
}

// agent starts the agent on the host, and returns its log.
func (h *host) agent() *syncLog {
	h.Helper()
	run := h.TempDir() + "/run"
	if err := os.Mkdir(run, 0o700); err != nil {
		h.Fatal(err)
	}
	log := &syncLog{}
	agent := h.program("agent", "--config", h.TempDir(), "--socket", run+"/agent.sock")
	agent.Stdout, agent.Stderr = log, log
	if err := agent.Start(); err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() {
		_ = agent.Process.Kill()
		_ = agent.Wait()
	})
	return log
}

// syncLog is what a process writes while the test reads.
type syncLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *syncLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *syncLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestLostPublishAddress: doctor finds an address that two hosts have, and the agent of the one that lost it removes it.
func TestLostPublishAddress(t *testing.T) {
	sandbox.Run(t, "sh", "-ec", "ip link add lan0 type bridge; ip link set lan0 up; ip address add 192.0.2.1/24 dev lan0; ip address add 2001:db8:2::1/64 dev lan0 nodad")
	t.Cleanup(func() { sandbox.Run(t, "ip", "link", "delete", "lan0") })
	store := t.TempDir()
	one, two := floatingHost(t, "one", store, 11), floatingHost(t, "two", store, 12)
	one.must("attach", "web-1", "--primary", "web", "--publish", "8080:80")
	const problem = "another host on the link of eth0 answers for it, too"
	if out, _ := one.allocnet("doctor"); strings.Contains(out, problem) {
		t.Errorf("with one host: %s", out)
	}
	sandbox.Run(t, "sh", "-ec", "grep -rl -e 192.0.2.50 -e 2001:db8:2::50 "+store+" | xargs rm") // as an operator's mistake, or a backup
	two.must("attach", "web-2", "--primary", "web", "--publish", "8080:80")
	if len(one.published()) != 2 || len(two.published()) != 2 {
		t.Errorf("the hosts have %v and %v, want all on both", one.published(), two.published())
	}
	out, err := one.program("doctor").CombinedOutput()
	if err == nil || strings.Count(string(out), problem) != 2 {
		t.Errorf("%v: %s", err, out)
	}
	log := one.agent()
	sandbox.Eventually(t, "the first host gives the addresses up", func() bool { return len(one.published()) == 0 }, log.String)
	if len(two.published()) != 2 {
		t.Errorf("the second host has %v", two.published())
	}
	sandbox.Eventually(t, "the agent reports it", func() bool { return strings.Contains(log.String(), "another host has a reserved address") }, log.String)
	if out, err := one.allocnet("check", "web-1"); err == nil || !strings.Contains(out, "192.0.2.50") {
		t.Errorf("check of the attachment without its addresses: %v: %s", err, out)
	}
	answer(t, "web-2")
	sandbox.Eventually(t, "web-2 answers", func() bool { return answers("web-2") })
	one.must("detach", "web-1")
	two.must("detach", "web-2")
}

// requireRepaired: an address that something has removed comes back, and what is attached again has had it all the time: others wait.
func (h *host) requireRepaired(id string) {
	h.Helper()
	sandbox.Run(h, "ip", "-n", h.namespace, "address", "delete", "192.0.2.50/32", "dev", "eth0")
	if out, err := h.allocnet("check", id); err == nil || !strings.Contains(out, "eth0") {
		h.Errorf("without the address: %v: %s", err, out)
	}
	h.must("repair", id)
	h.must("check", id)
	sandbox.Eventually(h, "the repaired address answers", func() bool { return answers(id) })
	before := h.shared()
	sandbox.Run(h, "ip", "-n", id, "link", "delete", "eth0")
	h.must("repair", "--reattach", id)
	h.must("check", id)
	if after := h.shared(); after != before {
		h.Errorf("while %s was attached again, others could have taken its address: the store has\n%s\nafter\n%s", id, after, before)
	}
}

// shared is what the store has of the published IPv4 address.
func (h *host) shared() string {
	h.Helper()
	return sandbox.Run(h, "sh", "-ec", "grep -rh 192.0.2.50 "+h.state+"/ipam/store/")
}

// requireForeignKept: an address that something else has given to the host is not published, and stays.
func (h *host) requireForeignKept() {
	h.Helper()
	sandbox.Run(h, "ip", "-n", h.namespace, "address", "add", "192.0.2.50/32", "dev", "lo")
	if out, err := h.allocnet("attach", "web-3", "--primary", "web", "--publish", "8080:80"); err == nil || !strings.Contains(out, "something else") {
		h.Errorf("with an address of the host: %v: %s", err, out)
	}
	if got := sandbox.Run(h, "ip", "-n", h.namespace, "-o", "address", "show", "dev", "lo"); !strings.Contains(got, "192.0.2.50") {
		h.Errorf("the address of the host is gone: %s", got)
	}
}
