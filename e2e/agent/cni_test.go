// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// plugin returns a call of allocnet-cni as a runtime makes it.
func (h *host) plugin(verb, id, mode, networks string) *exec.Cmd {
	cmd := exec.Command(plugin)
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "multi", "type": "allocnet-cni", "primary": "storage",
		"confDir": %q, "pluginDir": %q, "stateDir": %q, "executor": %q, "agent": {"socket": %q, "mode": %q}}`,
		h.conf, sandbox.PluginDir()+":"+h.plugins, h.state, sandbox.Executor(), h.socket, mode))
	cmd.Env = append(os.Environ(), "CNI_COMMAND="+verb, "CNI_CONTAINERID="+id, "CNI_IFNAME=eth0", "CNI_PATH="+h.plugins,
		"CNI_NETNS=/run/netns/"+id, "CNI_ARGS=IgnoreUnknown=true;networks="+networks, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// cni calls allocnet-cni, and returns what it printed.
func (h *host) cni(verb, id, mode string) (stdout, stderr string, code int) {
	h.Helper()
	cmd := h.plugin(verb, id, mode, "peer")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the caller reads the exit code
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func (h *host) namespace(id string) {
	h.Helper()
	path, err := netns.Create(netns.DefaultDir, id)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { _ = netns.Remove(path) })
}

// requireAdded fails the test unless the result of an ADD has an address.
func (h *host) requireAdded(stdout, stderr string, code int) {
	h.Helper()
	var result struct {
		IPs []struct{ Address string } `json:"ips"`
	}
	if err := json.Unmarshal([]byte(stdout), &result); code != 0 || err != nil || len(result.IPs) == 0 || !strings.HasPrefix(result.IPs[0].Address, "10.89.") {
		h.Fatalf("ADD: exit code %d, %v\n%s\n%s", code, err, stdout, stderr)
	}
}

const served = `allocnet_requests_total{code="%s",handler="/v1/cni",method="POST"}`

// TestPluginUsesTheAgent: the plugin delegates its call to the agent, and attaches without
// it if there is none. Each of the two tears down the allocations of the other.
func TestPluginUsesTheAgent(t *testing.T) {
	h := newHost(t)
	for _, id := range []string{"c1", "c2", "c4"} {
		h.namespace(id)
	}
	h.start()
	h.requireAdded(h.cni("ADD", "c1", "require"))
	if h.metric(fmt.Sprintf(served, "200")) != 1 {
		t.Error("the agent did not do it")
	}
	if out, _, code := h.cni("ADD", "c1", "prefer"); code == 0 || !strings.Contains(out, `"code": 101`) {
		t.Errorf("a second ADD: %d %s", code, out)
	}
	h.end(unix.SIGTERM)

	if stdout, stderr, code := h.cni("DEL", "c1", "prefer"); code != 0 || !strings.Contains(stderr, "continuing without the agent") {
		t.Errorf("DEL without the agent: %d %s\n%s", code, stdout, stderr)
	}
	stdout, stderr, code := h.cni("ADD", "c2", "prefer")
	h.requireAdded(stdout, stderr, code)
	if !strings.Contains(stderr, "continuing without the agent") {
		t.Errorf("it does not say so: %s", stderr)
	}
	if out, _, code := h.cni("ADD", "c4", "require"); code == 0 || !strings.Contains(out, `"code": 11`) {
		t.Errorf("the agent is required: %d %s", code, out)
	}

	h.start()
	if all := must[any](h)(h.client.Allocation(ctx, "c2")); all == nil {
		t.Error("the agent does not know what was set up without it")
	}
	if stdout, stderr, code := h.cni("DEL", "c2", "require"); code != 0 || h.metric(fmt.Sprintf(served, "204")) != 1 {
		t.Errorf("DEL by the agent: %d %s\n%s", code, stdout, stderr)
	}
	h.requireAdded(h.cni("ADD", "c4", "require"))
	h.end(unix.SIGTERM)
	if stdout, stderr, code := h.cni("DEL", "c4", "require"); code != 0 || !strings.Contains(stderr, "continuing without the agent") {
		t.Errorf("DEL without the agent that is required: %d %s\n%s", code, stdout, stderr)
	}
}

// TestAgentIsKilledDuringACall: if the agent is killed during an ADD, the plugin attaches
// without it.
func TestAgentIsKilledDuringACall(t *testing.T) {
	h := newHost(t)
	h.namespace("c3")
	h.start()
	for i := range 4 { // each time at another instant of the call
		ended := make(chan struct{})
		var stdout, stderr string
		var code int
		go func() {
			stdout, stderr, code = h.cni("ADD", "c3", "prefer")
			close(ended)
		}()
		h.await("the agent has begun", func() bool {
			select {
			case <-ended:
				return true
			default:
			}
			journal, _ := os.ReadFile(h.state + "/allocations/c3/journal")
			return strings.Contains(string(journal), `"interface":"eth0"`)
		})
		h.end(unix.SIGKILL)
		<-ended
		h.requireAdded(stdout, stderr, code)
		h.start()
		if _, stderr, code := h.cni("DEL", "c3", "prefer"); code != 0 {
			t.Fatalf("round %d: DEL: %s", i, stderr)
		}
	}
}

// TestAgentIsKilledAtAnyInstant kills the agent at instants of its calls, one after another from their begin
// to their end. The plugin completes each call: it attaches what the agent has begun to attach, or takes what
// is attached, and nothing is left of a DEL.
func TestAgentIsKilledAtAnyInstant(t *testing.T) {
	h := newHost(t)
	h.namespace("c5")
	const instants = 8
	for _, verb := range []string{"ADD", "DEL"} {
		var took time.Duration // of a call of which the agent is not killed
		for i := range instants + 1 {
			h.start()
			if verb == "DEL" {
				h.requireAdded(h.cni("ADD", "c5", "prefer"))
			}
			begun, ended := time.Now(), make(chan struct{})
			var stdout, stderr string
			var code int
			go func() {
				stdout, stderr, code = h.cni(verb, "c5", "prefer")
				close(ended)
			}()
			if i == 0 {
				<-ended
				took = time.Since(begun)
			}
			time.Sleep(time.Duration(i) * took / instants)
			h.end(unix.SIGKILL)
			<-ended
			if verb == "ADD" {
				h.requireAdded(stdout, stderr, code)
				if _, stderr, code := h.cni("DEL", "c5", "prefer"); code != 0 {
					t.Fatalf("instant %d: DEL: %s", i, stderr)
				}
			} else if code != 0 {
				t.Fatalf("instant %d: DEL: %d %s\n%s", i, code, stdout, stderr)
			}
			if out, code := h.allocnet("status", "c5"); code == 0 {
				t.Fatalf("%s, instant %d: it is on record still:\n%s", verb, i, out)
			}
		}
	}
	h.start() // it removes the socket of the last one
}

// TestPluginIsKilledDuringACall: the agent undoes a call of which the caller is gone.
func TestPluginIsKilledDuringACall(t *testing.T) {
	h := newHost(t)
	h.namespace("c6")
	begun := t.TempDir() + "/begun"
	h.fake("slow", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"ADD": {Mark: begun, Await: t.TempDir() + "/never"}}})
	h.start()
	cmd := h.plugin("ADD", "c6", "require", "slow")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h.await("the agent has begun", func() bool { return present(begun) })
	if out, code := h.allocnet("status", "c6"); code != 0 {
		t.Errorf("it is not on record:\n%s", out)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	h.await("the agent has undone it", func() bool {
		_, code := h.allocnet("status", "c6")
		return code != 0
	})
}

// TestRequiredAgentIsKilledDuringACall: what an agent began that is required is undone, because the plugin must not
// do it itself.
func TestRequiredAgentIsKilledDuringACall(t *testing.T) {
	h := newHost(t)
	h.namespace("c7")
	begun, end := t.TempDir()+"/begun", t.TempDir()+"/end"
	h.fake("slow", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"ADD": {Mark: begun, Await: end}}})
	h.start()
	cmd := h.plugin("ADD", "c7", "require", "slow")
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h.await("the agent has begun", func() bool { return present(begun) })
	h.end(unix.SIGKILL)
	sandbox.WriteFile(t, end, "")
	if err := cmd.Wait(); err == nil || !strings.Contains(out.String(), `"code": 11`) {
		t.Errorf("%v: %s", err, out.String())
	}
	if out, code := h.allocnet("status", "c7"); code == 0 {
		t.Errorf("it is on record still:\n%s", out)
	}
	h.start() // it removes the socket of the last one
}

// TestConflistFollows: the agent updates its conflist while the configuration of the
// primary network changes 100 times. Some of its versions are invalid.
func TestConflistFollows(t *testing.T) {
	h := newHost(t)
	path := h.conf + "/00-multi.conflist"
	h.configure(`multi { primary = "web" }`)
	h.start()
	source := sandbox.Run(t, "cat", h.conf+"/10-web.conflist")
	stop, torn := make(chan struct{}), make(chan error, 1)
	go func() { // a reader never sees a part of the file
		for {
			data, err := os.ReadFile(path)
			if err == nil {
				_, err = cniconf.ParseNetwork(path, data)
			}
			if err != nil {
				torn <- fmt.Errorf("%w in %q", err, data)
				return
			}
			select {
			case <-stop:
				torn <- nil
				return
			default:
			}
		}
	}()
	for i := range 100 {
		text := source
		switch i % 4 {
		case 1:
			text = source[:len(source)*i/100]
		case 2:
			text = strings.Replace(source, `"snat": true,`, "", 1)
		case 3: // replaced by rename, as editors save
			sandbox.WriteFile(t, h.conf+"/.new", source)
			if err := os.Rename(h.conf+"/.new", h.conf+"/10-web.conflist"); err != nil {
				t.Fatal(err)
			}
			continue
		}
		sandbox.WriteFile(t, h.conf+"/10-web.conflist", text)
	}
	sandbox.WriteFile(t, h.conf+"/10-web.conflist", strings.Replace(source, `"isGateway": true,`, `"isGateway": true, "capabilities": {"mac": true},`, 1))
	h.await("the conflist has what the last edit brought", func() bool {
		return strings.Contains(sandbox.Run(t, "cat", path), `"mac": true`)
	})
	close(stop)
	if err := <-torn; err != nil {
		t.Errorf("half written: %v", err)
	}
	if err := os.Remove(h.conf + "/10-web.conflist"); err != nil {
		t.Fatal(err)
	}
	h.await("it says that the primary is gone", func() bool { return strings.Contains(h.log.String(), "conflist is not updated") })
	if !present(path) {
		t.Error("the conflist went with its primary")
	}
	sandbox.WriteFile(t, h.conf+"/10-web.conflist", source)
	h.await("it follows again", func() bool { return !strings.Contains(sandbox.Run(t, "cat", path), `"mac": true`) })
}

// TestConflistIsInstalled: the agent installs the user's conflist, and keeps the last
// valid one.
func TestConflistIsInstalled(t *testing.T) {
	h := newHost(t)
	source, path := t.TempDir()+"/mine.json", h.conf+"/00-multi.conflist"
	const list = `{"cniVersion": "1.0.0", "name": "multi", "plugins": [{"type": "allocnet-cni", "primary": "storage"}]}`
	sandbox.WriteFile(t, source, list)
	h.configure(fmt.Sprintf("multi {\n source = %q\n}", source))
	h.start()
	if got := sandbox.Run(t, "cat", path); got != list {
		t.Errorf("installed is %s", got)
	}
	sandbox.WriteFile(t, source, list[:40])
	h.await("it says what is wrong", func() bool { return strings.Contains(h.log.String(), "mine.json") })
	if got := sandbox.Run(t, "cat", path); got != list {
		t.Errorf("it was replaced by %s", got)
	}
	changed := strings.Replace(list, "storage", "peer", 1)
	sandbox.WriteFile(t, source, changed)
	h.await("the change is installed", func() bool { return sandbox.Run(t, "cat", path) == changed })
}
