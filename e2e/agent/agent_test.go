// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/agent/client"
	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

var ctx = context.Background()

// web asks for three networks and a port.
func web(port int) api.Setup {
	return api.Setup{
		Primary: api.Selection{{Name: "web"}}, Networks: api.Selection{{Name: "storage"}, {Name: "peer", Interface: "net5"}},
		Ports: []api.Port{{Label: "http", HostPort: port, To: 80, Protocol: "tcp"}},
	}
}

func TestLifeOfAnAllocation(t *testing.T) {
	h := newHost(t)
	sandbox.WriteFile(t, h.conf+"/50-fixed.conflist", `{"cniVersion": "0.3.1", "name": "fixed", "allocnet": {"staticIPs": ["10.92.0.0/16"]}, "plugins": [
		{"type": "bridge", "bridge": "fixed0", "capabilities": {"mac": true, "ips": true}, "ipam": {"type": "static"}}]}`)
	h.start()
	a := must[*api.Allocation](h)(h.client.Setup(ctx, "web-1", web(8080)))
	if got := interfaces(a); got != "eth0 net1 net5" {
		t.Errorf("interfaces %s", got)
	}
	if again := must[*api.Allocation](h)(h.client.Setup(ctx, "web-1", web(8080))); again.Created != a.Created {
		t.Error("a second set-up made another allocation")
	}
	var failed *api.Error
	if _, err := h.client.Setup(ctx, "web-1", web(9090)); !errors.As(err, &failed) || failed.Code != api.CodeConflict {
		t.Errorf("another request: %v", err)
	}
	a = must[*api.Allocation](h)(h.client.Attach(ctx, "web-1", api.Selection{
		{Name: "fixed", Interface: "data0", IPs: []string{"10.92.0.9/16"}, MAC: "02:00:00:00:00:09", CNIArgs: map[string]any{"a": "b"}},
	}))
	if got := interfaces(a); got != "eth0 net1 net5 data0" {
		t.Errorf("with a further network: %s", got)
	}
	if links := sandbox.Run(t, "ip", "-n", "web-1", "-brief", "addr", "show", "data0"); !strings.Contains(links, "10.92.0.9/16") {
		t.Errorf("data0 is %s", links)
	}
	for range 2 { // the second call finds no attachment
		if err := h.client.Detach(ctx, "web-1", "data0"); err != nil {
			t.Error(err)
		}
	}
	if a = must[*api.Allocation](h)(h.client.Allocation(ctx, "web-1")); interfaces(a) != "eth0 net1 net5" {
		t.Errorf("after it was removed: %s", interfaces(a))
	}
	if all := must[[]*api.Allocation](h)(h.client.Allocations(ctx)); len(all) != 1 {
		t.Errorf("%d allocations", len(all))
	}
	if h.metric(`allocnet_attachments{network="web",phase="attached"}`) != 1 || h.metric(`allocnet_pool_addresses_used{family="ipv4",network="storage"}`) != 1 {
		t.Error("the metrics do not show the attachment")
	}
	if out, code := h.allocnet("status", "web-1"); code != 0 || !strings.Contains(out, "net5") {
		t.Errorf("the command line beside the agent: %d %s", code, out)
	}
	for range 2 {
		if err := h.client.Teardown(ctx, "web-1"); err != nil {
			t.Error(err)
		}
	}
	if _, err := h.client.Allocation(ctx, "web-1"); !errors.As(err, &failed) || failed.Code != api.CodeUnknownContainer {
		t.Errorf("after the teardown: %v", err)
	}
	if h.metric(`allocnet_operation_duration_seconds_count{network="web",operation="attach",outcome="done"}`) != 1 {
		t.Error("the attachment was not timed")
	}
}

func TestRefusals(t *testing.T) {
	h := newHost(t)
	h.start()
	for _, test := range []struct {
		method, path, body string
		status             int
		words              string
	}{
		{"PUT", "/v1/allocations/a", `{"primary": "nowhere"}`, 422, `unknown network \"nowhere\"`},
		{"PUT", "/v1/allocations/a", `{"primary": {"name": "storage", "ips": ["10.89.0.9"]}}`, 422, "ips"},
		{"PUT", "/v1/allocations/a", `{"primary": "web", "netns": "/run/netns/none"}`, 422, "missing"},
		{"PUT", "/v1/allocations/a", `{"primary": "web", "netns": "relative"}`, 422, "absolute"},
		{"PUT", "/v1/allocations/a", `{"primary": "web@x/y"}`, 422, "interface"},
		{"PUT", "/v1/allocations/a", `{"primary": "web", "args": {"a": "b;c"}}`, 422, "b;c"},
		{"PUT", "/v1/allocations/..%2fa", `{"primary": "web"}`, 422, "allocation ID"},
		{"PUT", "/v1/allocations/a", `{"primary": "web", "ports": [{"label": "x", "hostPort": 70000}]}`, 422, "70000"},
		{"POST", "/v1/allocations/none/attachments", `{"networks": "storage"}`, 404, "is not set up here"},
		{"POST", "/v1/cni", `{"env": {"CNI_COMMAND": "ADD"}, "config": {"type": "bridge"}}`, 400, "allocnet-cni"},
		{"POST", "/v1/cni", `{"env": {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "a"}, "config": {"cniVersion": "1.0.0", "name": "m", "type": "allocnet-cni"}}`, 500, `"code":4`},
		{"GET", "/v1/nothing", "", 404, "no path"},
		{"DELETE", "/v1/networks", "", 405, "want GET"},
	} {
		if status, body := h.request(test.method, test.path, test.body); status != test.status || !strings.Contains(body, test.words) {
			t.Errorf("%s %s %s: %d, want %d with %q: %s", test.method, test.path, test.body, status, test.status, test.words, body)
		}
	}
}

// TestLongManyClients has 200 parallel clients, most of which get "try again later".
func TestLongManyClients(t *testing.T) {
	h := newHost(t)
	h.configure("limits {\n requests = 8\n connections = 32\n}")
	h.start()
	var clients sync.WaitGroup
	var failures atomic.Int32
	for i := range 200 {
		clients.Go(func() {
			c := client.New(h.socket)
			id := fmt.Sprintf("crowd-%d", i)
			_, err := c.Setup(ctx, id, api.Setup{Networks: api.Selection{{Name: "storage"}}})
			if err == nil {
				err = c.Teardown(ctx, id)
			}
			if err != nil && failures.Add(1) < 5 {
				t.Error(err)
			}
		})
	}
	clients.Wait()
	if h.metric(`allocnet_requests_total{code="503",handler="/v1/allocations/{id}",method="PUT"}`) == 0 {
		t.Error("no client got \"try again later\": the limit was not reached")
	}
}

// TestLongKilled kills the agent while it sets up 100 attachments. After the next start each
// allocation is attached as a whole or not at all, and all can be attached and detached.
func TestLongKilled(t *testing.T) {
	h := newHost(t)
	h.start()
	const n = 50 // with two attachments each
	body := api.Setup{Primary: api.Selection{{Name: "storage"}}, Networks: api.Selection{{Name: "peer"}}}
	var clients sync.WaitGroup
	var stood atomic.Int32
	half := make(chan struct{})
	for i := range n {
		clients.Go(func() {
			if _, err := client.New(h.socket).Setup(ctx, fmt.Sprintf("kill-%d", i), body); err == nil && stood.Add(1) == n/3 {
				close(half)
			}
		})
	}
	<-half
	h.end(unix.SIGKILL)
	clients.Wait()
	h.start()
	if h.metric(`allocnet_leaks_removed_total{kind="allocation"}`) == 0 {
		t.Error("no request was interrupted: the kill came too late")
	}
	for _, a := range must[[]*api.Allocation](h)(h.client.Allocations(ctx)) {
		for _, attachment := range a.Attachments {
			if attachment.Phase != "attached" {
				t.Errorf("%s %s is %s", a.ID, attachment.Interface, attachment.Phase)
			}
		}
	}
	for i := range n {
		clients.Go(func() {
			c, id := client.New(h.socket), fmt.Sprintf("kill-%d", i)
			if _, err := c.Setup(ctx, id, body); err != nil {
				t.Error(err)
			}
			if err := c.Teardown(ctx, id); err != nil {
				t.Error(err)
			}
		})
	}
	clients.Wait()
}

// TestDeadAllocations: dead allocations are torn down when the agent starts, and counted.
func TestDeadAllocations(t *testing.T) {
	h := newHost(t)
	for _, id := range []string{"dead-1", "dead-2", "live-1"} {
		if out, code := h.allocnet("attach", id, "--primary", "web", "--networks", "peer"); code != 0 { // with rules that DEL leaves
			t.Fatal(out)
		}
	}
	for _, id := range []string{"dead-1", "dead-2"} {
		if err := netns.Remove("/run/netns/" + id); err != nil {
			t.Fatal(err)
		}
	}
	h.start()
	if got := h.metric(`allocnet_leaks_removed_total{kind="allocation"}`); got != 2 {
		t.Errorf("%v leaks were removed, want 2", got)
	}
	if got := h.metric(`allocnet_forced_cleanups_total{network="web",outcome="done"}`); got != 2 {
		t.Errorf("%v attachments were cleaned up by force, want 2", got)
	}
	if all := must[[]*api.Allocation](h)(h.client.Allocations(ctx)); len(all) != 1 || all[0].ID != "live-1" {
		t.Errorf("left are %v", all)
	}
	if err := netns.Remove("/run/netns/live-1"); err != nil {
		t.Fatal(err)
	}
	if c := must[*api.Collected](h)(h.client.GC(ctx)); len(c.TornDown) != 1 {
		t.Errorf("gc took down %v", c.TornDown)
	}
}

// TestLeaks: leaks are counted, and removed unless the agent only reports them.
func TestLeaks(t *testing.T) {
	h := newHost(t)
	const lease = "/var/lib/cni/networks/storage/10.89.7.7"
	sandbox.WriteFile(t, lease, "stray\r\neth0")
	if old := time.Now().Add(-time.Hour); os.Chtimes(lease, old, old) != nil {
		t.Fatal("the lease cannot be made old")
	}
	const young = "/var/lib/cni/networks/storage/10.89.7.8" // of another runtime whose ADD may not be complete
	sandbox.WriteFile(t, young, "begun\r\neth0")
	if later := time.Now().Add(time.Minute); os.Chtimes(young, later, later) != nil { // younger than two minutes for three
		t.Fatal("the lease cannot be kept young")
	}
	h.configure("reconcile {\n leaks = \"report\"\n}")
	h.start()
	found, removed := h.metric(`allocnet_leaks_found_total{kind="lease"}`), h.metric(`allocnet_leaks_removed_total{kind="lease"}`)
	if found != 1 || removed != 0 || !present(lease) {
		t.Errorf("to be reported: found %v, removed %v, there is %v", found, removed, present(lease))
	}
	h.configure("")
	if err := h.cmd.Process.Signal(unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	h.await("the leak is removed", func() bool { return h.metric(`allocnet_leaks_removed_total{kind="lease"}`) == 1 && !present(lease) })
	if !present(young) {
		t.Error("a lease that was given out only now was taken for a leak")
	}
	if err := os.Remove(young); err != nil {
		t.Error(err)
	}
}

// TestUnknownRemovesNothing: while Nomad does not answer, nothing is removed.
func TestUnknownRemovesNothing(t *testing.T) {
	h := newHost(t)
	h.configure("nomad {\n address = \"http://127.0.0.1:1\"\n}")
	if out, code := h.allocnet("attach", "dead", "--primary", "storage"); code != 0 {
		t.Fatal(out)
	}
	if err := netns.Remove("/run/netns/dead"); err != nil {
		t.Fatal(err)
	}
	h.start()
	var failed *api.Error
	limited, stop := context.WithCancel(ctx)
	stop()
	if _, err := h.client.GC(limited); err == nil {
		t.Error("gc worked")
	}
	if status, body := h.request("POST", api.PathGC, ""); status != 503 || !strings.Contains(body, "nothing is removed") {
		t.Errorf("gc: %d %s", status, body)
	}
	if _, err := h.client.Allocation(ctx, "dead"); errors.As(err, &failed) {
		t.Errorf("it was removed: %v", err)
	}
	if h.metric(`allocnet_reconcile_rounds_total{outcome="unknown"}`) == 0 {
		t.Error("the round was not counted")
	}
	h.end(unix.SIGTERM)
	if out, code := h.allocnet("detach", "dead"); code != 0 {
		t.Error(out)
	}
}

func TestGracefulStop(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	h.fake("slow", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"ADD": {Mark: dir + "/begun", Await: dir + "/go"}}})
	h.start()
	done := make(chan error, 1)
	go func() {
		_, err := h.client.Setup(ctx, "slow-1", api.Setup{Primary: api.Selection{{Name: "slow"}}})
		done <- err
	}()
	h.await("the plugin runs", func() bool { return present(dir + "/begun") })
	if err := h.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	h.await("the agent is stopping", func() bool {
		status, body := h.request("GET", "/readyz", "")
		return status == 503 && strings.Contains(body, "stopping")
	})
	if status, body := h.request("PUT", "/v1/allocations/late", `{"primary": "web"}`); status != 503 || !strings.Contains(body, `"code":11`) {
		t.Errorf("new work: %d %s", status, body)
	}
	sandbox.WriteFile(t, dir+"/go", "")
	if err := <-done; err != nil {
		t.Errorf("the request in flight: %v", err)
	}
	h.end(unix.SIGTERM)
	if out, code := h.allocnet("detach", "slow-1"); code != 0 {
		t.Error(out)
	}
}

func present(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestSecondAgentAndStaleSocket(t *testing.T) {
	h := newHost(t)
	h.start()
	if out, code := h.allocnet("agent"); code != 1 || !strings.Contains(out, "another agent is running") {
		t.Errorf("a second agent: %d %s", code, out)
	}
	for path, mode := range map[string]os.FileMode{"/run/allocnet": 0o700, h.socket: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	h.end(unix.SIGKILL)
	if !present(h.socket) {
		t.Error("the socket is gone after kill -9: the test shows nothing")
	}
	h.start()
}

// TestOthersHaveNoAccess uses a socket with an open mode, as another program may
// hand one to the agent: the agent restricts the mode, and checks the credentials of each
// connection in case that the mode is changed again.
func TestOthersHaveNoAccess(t *testing.T) {
	h := newHost(t)
	h.socket = "/run/open.sock"
	h.client = client.New(h.socket)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: h.socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chmod(h.socket, 0o666); err != nil {
		t.Fatal(err)
	}
	if h.handOver, err = l.File(); err != nil {
		t.Fatal(err)
	}
	h.launch("sh", "-c", "LISTEN_FDS=1 LISTEN_PID=$$ exec "+binary+" agent") // sd_listen_fds(3)
	h.await("the agent is ready", func() bool { return h.client.Ready(ctx) == nil })
	ask := func() string {
		out, _ := exec.Command("setpriv", "--reuid", "65534", "--clear-groups", "curl", "-sS", "--unix-socket", h.socket, "http://agent/v1/allocations").CombinedOutput()
		return string(out)
	}
	if out := ask(); !strings.Contains(out, "curl: (7)") {
		t.Errorf("the socket is open: %s", out)
	}
	if err := os.Chmod(h.socket, 0o666); err != nil {
		t.Fatal(err)
	}
	if out := ask(); !strings.Contains(out, "user 65534 has no access") {
		t.Errorf("who is calling does not matter: %s", out)
	}
	if status, _ := h.request("GET", "/v1/allocations", ""); status != 200 {
		t.Errorf("root: %d", status)
	}
}

func TestReload(t *testing.T) {
	h := newHost(t)
	h.configure(`log_level = "warn"`)
	h.start()
	hangup := func(want string) {
		t.Helper()
		if err := h.cmd.Process.Signal(unix.SIGHUP); err != nil {
			t.Fatal(err)
		}
		h.await(want, func() bool { return strings.Contains(h.log.String(), want) })
	}
	h.configure("log_level = \"info\"\npprof = true")
	hangup("configuration reloaded")
	if !strings.Contains(h.log.String(), "these changes need a restart: settings=pprof") {
		t.Errorf("it does not say what needs a restart:\n%s", h.log)
	}
	h.configure("log_level = \"loud\"")
	hangup("agent.hcl:1,13-19")
	for outcome, want := range map[string]float64{"done": 1, "failed": 1} {
		if got := h.metric(`allocnet_config_reloads_total{outcome="` + outcome + `"}`); got != want {
			t.Errorf("%v reloads %s, want %v", got, outcome, want)
		}
	}
	if out, code := h.allocnet("agent", "--check-config", "--config", h.config+"/missing"); code != 2 || !strings.Contains(out, h.config+"/missing") {
		t.Errorf("--check-config of what is missing: %d %s", code, out)
	}
	if out, code := h.allocnet("agent", "--check-config"); code != 2 || !strings.Contains(out, "agent.hcl:1,13-19") {
		t.Errorf("--check-config of a fault: %d %s", code, out)
	}
	h.configure("log_level = \"info\"")
	if out, code := h.allocnet("agent", "--check-config"); code != 0 || !strings.Contains(out, "is valid") {
		t.Errorf("--check-config: %d %s", code, out)
	}
}

// TestMetricsListener: Prometheus scrapes the agent over TCP.
func TestMetricsListener(t *testing.T) {
	h := newHost(t)
	h.configure("metrics {\n listen = \"127.0.0.1:9464\"\n}\n")
	h.start()
	if page := sandbox.Run(t, "curl", "-sf", "http://127.0.0.1:9464/metrics"); !strings.Contains(page, "\nallocnet_build_info{") {
		t.Errorf("the page has no allocnet_build_info:\n%s", page)
	}
	if out, code := h.allocnet("agent", "--socket", t.TempDir()+"/run/agent.sock"); code != 1 || !strings.Contains(out, "metrics: listen \"127.0.0.1:9464\"") {
		t.Errorf("a second agent on the address: %d %s", code, out)
	}
}

// TestReadyFile: until ready_file exists, the agent serves requests and is not ready.
func TestReadyFile(t *testing.T) {
	h := newHost(t)
	path := h.conf + "/05-late.conflist"
	h.configure(fmt.Sprintf("ready_file = %q\n", path))
	h.launch(binary, "agent")
	h.await("it serves", func() bool { return present(h.socket) })
	h.await("the first round is over", func() bool {
		_, body := h.request("GET", "/readyz", "")
		return !strings.Contains(body, "reconciler")
	})
	if status, body := h.request("GET", "/readyz", ""); status != 503 || !strings.Contains(body, path+" does not exist") {
		t.Errorf("without the file: %d %s", status, body)
	}
	if status, _ := h.request("GET", "/healthz", ""); status != 200 {
		t.Errorf("healthz: %d", status)
	}
	sandbox.WriteFile(t, path, `{"cniVersion": "1.0.0", "name": "late", "type": "loopback"}`)
	if err := h.client.Ready(ctx); err != nil {
		t.Errorf("with the file: %v", err)
	}
}

// TestNewNetworks: the agent uses new network configurations without a restart, and
// running allocations keep their own.
func TestNewNetworks(t *testing.T) {
	h := newHost(t)
	h.start()
	must[*api.Allocation](h)(h.client.Setup(ctx, "old", api.Setup{Primary: api.Selection{{Name: "storage"}}}))
	sandbox.WriteFile(t, h.conf+"/20-storage.conflist", `{`)
	sandbox.WriteFile(t, h.conf+"/21-late.conflist", `{"cniVersion": "1.0.0", "name": "late", "plugins": [
		{"type": "bridge", "bridge": "storage0", "ipam": {"type": "host-local", "subnet": "10.94.0.0/16", "dataDir": "/run/late-leases"}}]}`)
	defer os.RemoveAll("/run/late-leases")
	must[*api.Allocation](h)(h.client.Setup(ctx, "new", api.Setup{Primary: api.Selection{{Name: "late"}}}))
	networks := must[*api.Networks](h)(h.client.Networks(ctx))
	if len(networks.Broken) != 1 || !strings.Contains(networks.Broken[0], "20-storage.conflist") {
		t.Errorf("broken are %v", networks.Broken)
	}
	for _, id := range []string{"old", "new"} {
		if err := h.client.Teardown(ctx, id); err != nil {
			t.Error(err)
		}
	}
}
