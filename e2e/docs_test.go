// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// commands of the command line, as its help lists them.
var commands = []string{"agent", "attach", "capture", "check", "cleanup", "conf generate", "detach", "doctor", "events", "exec", "gc", "ipam check", "ipam release", "ipam reserve", "ipam show", "ipam unreserve", "man", "map", "networks", "networks create", "networks inspect", "networks rm", "plugin", "policy show", "policy test", "repair", "run", "status", "systemd-run", "test", "version"}

// TestDocuments runs the documents' examples with the networks of dist/conf.
func TestDocuments(t *testing.T) {
	for _, path := range []string{"../README.md", "../docs/cleanup.md", "../docs/commands.md", "../docs/dns.md", "../docs/events.md", "../docs/inside.md", "../docs/isolation.md", "../docs/map.md", "../docs/moving.md", "../docs/networks.md", "../docs/repair.md"} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			h := newHost(t)
			h.useDist()
			h.shell(strings.NewReplacer("/usr/share/doc/allocnet/examples/", "../dist/conf/", "/opt/cni/config/", h.conf+"/").Replace(example(t, path, "tested")))
			_ = exec.Command("ip", "link", "delete", "backend0").Run() // network rm leaves it if a plugin has made it
		})
	}
}

// example returns the code block of a document that follows the mark.
func example(t *testing.T, file, mark string) string {
	t.Helper()
	block := regexp.MustCompile("(?s)<!-- " + mark + " -->\n *```sh\n(.*?)```").FindStringSubmatch(read(t, file))
	if block == nil {
		t.Fatalf("%s has no examples that are marked as %q", file, mark)
	}
	return block[1]
}

// TestNomadPage runs the commands of docs/nomad.md, and uses the conflist that they write
// with cnitool.
func TestNomadPage(t *testing.T) {
	h := newHost(t)
	h.useDist()
	h.installPlugin()
	t.Setenv("PATH", sandbox.PluginDir()+":"+os.Getenv("PATH"))
	t.Setenv("NETCONFPATH", h.conf)
	t.Setenv("CNI_PATH", h.plugins+":"+sandbox.PluginDir())
	nomadSelf(t)
	h.shell(example(t, "../docs/nomad.md", "tested: meta") + example(t, "../docs/nomad.md", "tested") + example(t, "../docs/nomad.md", "tested: cnitool"))
}

// nomadSelf is a Nomad agent that only describes itself.
func nomadSelf(t *testing.T) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"config": {"DataDir": "/opt/nomad/data", "Version": {"Version": "1.11.3"}, "Client": {"Enabled": true}}}`)
	}))
	t.Cleanup(server.Close)
	t.Setenv("NOMAD_ADDR", server.URL)
}

// TestHelpExamples runs every example of every help text with the networks of dist/conf.
func TestHelpExamples(t *testing.T) {
	h := newHost(t)
	h.useDist()
	h.must("attach", "warm", "--primary", "mgmt") // its bridge and its directory of leases stay
	h.must("detach", "warm")
	h.before = sandbox.Snapshot(t)
	sandbox.Run(t, "ip", "netns", "add", "db")
	defer sandbox.Run(t, "ip", "netns", "delete", "db")
	sandbox.WriteFile(t, "/run/live-allocations", "web-1\n")
	nomadSelf(t)
	agent := t.TempDir()
	sandbox.WriteFile(t, agent+"/agent.hcl", read(t, "../dist/agent.hcl"))
	h.installPlugin()
	for _, command := range commands {
		if command == "systemd-run" {
			continue // needs systemd: e2e/systemd runs its examples
		}
		t.Run(command, func(t *testing.T) {
			h := *h
			h.t = t
			if strings.HasPrefix(command, "ipam ") {
				h.usePool()
				defer os.Remove(h.conf + "/90-pool.conflist")
			}
			help := h.must(append(strings.Fields(command), "--help")...)
			_, examples, found := strings.Cut(help, "Examples:\n")
			if !found {
				t.Fatalf("the help has no examples:\n%s", help)
			}
			examples, _, _ = strings.Cut(examples, "\nFlags:")
			examples, _, _ = strings.Cut(examples, "\nAvailable Commands:")
			before := "true"
			if command == "status" || command == "map" || command == "check" || command == "events" || command == "repair" || command == "detach" || command == "capture" || command == "exec" || command == "test" || strings.HasPrefix(command, "policy ") {
				before = "allocnet attach web-1 --primary web --networks storage,mgmt"
			}
			examples = strings.NewReplacer(
				"python3 -m http.server 80", "true",
				"--conf-dir /etc/cni/net.d", "--conf-dir "+h.conf,
				"--config /etc/allocnet.d", "--config "+agent,
				"/usr/local/share/man", t.TempDir(),
				"> map.svg", "> "+t.TempDir()+"/map.svg",
				"> web-1.pcapng", "> "+t.TempDir()+"/web-1.pcapng", "> net1.pcapng", "> "+t.TempDir()+"/net1.pcapng",
			).Replace(examples)
			h.shell(before + "\n" + examples)
			for _, id := range []string{"web-1", "web-2", "db-1"} {
				h.must("detach", id)
			}
			if strings.HasPrefix(command, "networks ") {
				h.useDist()
			}
		})
	}
}

// TestPoolPage runs the commands of docs/ipam.md.
func TestPoolPage(t *testing.T) {
	h := newHost(t)
	h.useDist()
	h.usePool()
	h.shell(example(t, "../docs/ipam.md", "tested: pools"))
}

// usePool adds a network with the pool of the examples, in files of this host.
func (h *host) usePool() {
	h.t.Helper()
	dir := h.t.TempDir()
	sandbox.WriteFile(h.t, h.conf+"/90-pool.conflist", fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "pooled", "plugins": [{"type": "bridge", "bridge": "pool0", "ipam": {
		"type": "allocnet-ipam", "pool": "vlan100", "ranges": [{"subnet": "10.91.0.0/16"}], "reserved": ["10.91.0.16/28"],
		"stateDir": %q, "dataDir": %q, "configDir": %q}}]}`, dir, dir, dir))
}

// TestConnectionsFromHost: as documented, a program of the host reaches allocations on a
// bridge and on a macvlan network.
func TestConnectionsFromHost(t *testing.T) {
	h := newHost(t)
	h.useDist()
	page := read(t, "../docs/routing.md")
	_, conflist, _ := strings.Cut(page, "<!-- tested: reachable bridge -->\n```json\n")
	conflist, _, _ = strings.Cut(conflist, "```")
	local := strings.NewReplacer(`"host-local"`, `"host-local", "dataDir": "/run/reachable"`, `"storage0"`, `"reach0"`)
	sandbox.WriteFile(t, h.conf+"/20-storage.conflist", local.Replace(conflist))
	sandbox.WriteFile(t, h.conf+"/30-vlan.conflist", strings.NewReplacer(
		`"host-local"`, `"host-local", "dataDir": "/run/reachable"`, `"10.91.0.0/16"`, `"10.91.0.0/16", "rangeEnd": "10.91.255.0"`).Replace(read(t, h.conf+"/30-vlan.conflist")))
	defer os.RemoveAll("/run/reachable")
	a := h.attach("reachable", "--networks", "storage,vlan")
	h.shell(example(t, "../docs/routing.md", "tested: macvlan interface"))
	for _, n := range a.Attachments {
		address := net.JoinHostPort(n.Addresses[0].Addr().String(), "5433")
		serve(t, a.Netns, address, n.Network)
		requireAnswer(t, "http://"+address, n.Network)
	}
	h.must("detach", "reachable")
	h.shell("ip link delete vlan-host; ip link delete reach0")
}

// useDist makes dist/conf the CNI configuration directory.
func (h *host) useDist() {
	h.t.Helper()
	files, err := filepath.Glob("../dist/conf/*")
	if err != nil || len(files) == 0 {
		h.t.Fatalf("dist/conf: %v, %v", files, err)
	}
	if err := os.RemoveAll(h.conf); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Mkdir(h.conf, 0o700); err != nil {
		h.t.Fatal(err)
	}
	for _, file := range files {
		sandbox.WriteFile(h.t, filepath.Join(h.conf, filepath.Base(file)), read(h.t, file))
	}
}

// shell runs lines as a user would, and fails the test at the first error.
func (h *host) shell(lines string) {
	h.t.Helper()
	cmd := exec.Command("bash", "-euxo", "pipefail", "-c", lines)
	cmd.Env = append(h.command().Env, "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Errorf("%v\n%s", err, out)
	}
}

func TestManAndCompletion(t *testing.T) {
	h := newHost(t)
	pages := t.TempDir()
	dir := filepath.Join(pages, "man1")
	h.must("man", pages)
	for _, command := range commands {
		page := read(t, filepath.Join(dir, "allocnet-"+strings.ReplaceAll(command, " ", "-")+".1"))
		if !strings.Contains(page, ".SH EXAMPLE") {
			t.Errorf("the page of %s has no examples", command)
		}
	}
	if page := read(t, filepath.Join(dir, "allocnet.1")); !strings.Contains(page, "Exit codes") {
		t.Error("the main page does not say the exit codes")
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if out := h.must("completion", shell); !strings.Contains(out, "allocnet") {
			t.Errorf("completion for %s: %q", shell, out)
		}
	}
}

func TestEnvironmentAndJSON(t *testing.T) {
	h := newHost(t)
	t.Setenv("ALLOCNET_JSON", "true")
	h.refuse(3, []string{`{"code":3,"error":"allocation none is not set up here"}`}, "status", "none")
	t.Setenv("ALLOCNET_CALL_TIMEOUT", "soon")
	h.refuse(2, []string{"ALLOCNET_CALL_TIMEOUT", "soon"}, "status")
	t.Setenv("ALLOCNET_CALL_TIMEOUT", "-1s")
	h.refuse(2, []string{"--call-timeout"}, "status")
	t.Setenv("ALLOCNET_CALL_TIMEOUT", "1s")
	if out := h.must("status"); strings.TrimSpace(out) != "[]" {
		t.Errorf("no allocations: %q", out)
	}
	if out := h.must("version", "--json=false"); !strings.HasPrefix(out, "allocnet ") {
		t.Errorf("the flag does not win over the environment: %q", out)
	}
}

func TestNetworks(t *testing.T) {
	h := newHost(t)
	// STATUS came with version 1.1.0 of the specification.
	if out := h.must("networks", "--json"); strings.Contains(out, `"ready": "yes"`) != sandbox.PluginsHave(t, sandbox.Specification11) || !strings.Contains(out, `"ready": "notReported"`) {
		t.Errorf("of CNI 1.0 and 1.1, networks says %s", out)
	}
	sandbox.WriteFile(t, h.conf+"/98-down.conf", `{"cniVersion": "1.1.0", "name": "down", "type": "fakecni", "fake": {"verbs": {"STATUS": {"code": 50, "msg": "no fabric"}}}}`)
	sandbox.WriteFile(t, h.conf+"/99-broken.conf", "{")
	o := h.allocnet("networks")
	for _, word := range []string{"99-broken.conf:1:1", `network "down" is not ready: no fabric`} {
		if o.code != 1 || !strings.Contains(o.stdout, word) {
			t.Errorf("networks does not say %q: exit code %d\n%s", word, o.code, o.stdout)
		}
	}
}
