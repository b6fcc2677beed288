// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/client"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
	"github.com/allocnet/allocnet/nomad"
	"github.com/allocnet/allocnet/policy"
)

// conf has the networks of the client in addition to those of dist/conf.
var conf = map[string]string{
	"45-tiny.conflist":  bridge("tiny", "10.97.0.0/30", ""),
	"46-names.conflist": strings.Replace(bridge("names", "10.98.0.0/24", ""), `"isGateway"`, `"dns": {"nameservers": ["192.0.2.53"], "domain": "names.example"}, "isGateway"`, 1),
}

// restricted are the networks of ownDir.
var restricted = map[string]string{
	"43-closed.conflist":  bridge("closed", "10.95.0.0/24", `"allocnet": {"namespaces": ["prod"]},`),
	"44-dynamic.conflist": bridge("dynamic", "10.96.0.0/24", `"allocnet": {"staticIPs": false},`),
}

// bridge is a network without a default route, on which a job can choose addresses.
func bridge(name, subnet, more string) string {
	return fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %q, %s "plugins": [
		{"type": "bridge", "bridge": %q, "isGateway": true, "capabilities": {"ips": true},
		 "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]]}}]}`, name, more, name+"0", subnet)
}

// TestNomad runs jobs that select networks by meta and network blocks, as each version of Nomad
// has them. It uses one agent for all tests.
func TestNomad(t *testing.T) {
	generate := writeNetworks(t)
	sandbox.Run(t, append(generate, "--alloc-dir", dataDir+"/alloc", "--job-networks")...)
	a := newAgent(t)
	a.Start()
	d := &daemon{agent: a, client: client.New(agentSocket)}
	d.configure("")
	d.launch()
	t.Cleanup(func() { d.end(unix.SIGTERM) })
	a.daemon = d
	sandbox.Run(t, append(generate, "--job-networks", "--check")...) // asks Nomad for its alloc_dir
	testAll(a)
}

// TestLongArguments runs jobs that select networks by CNI arguments, without an agent of allocnet. A
// Nomad without these refuses them.
func TestLongArguments(t *testing.T) {
	generate := writeNetworks(t)
	sandbox.Run(t, append(slices.Clone(generate), "--alloc-dir", dataDir+"/alloc")...)
	a := newAgent(t)
	a.arguments = true
	a.Start()
	if !a.Has(nomad.JobArguments) {
		testNoArguments(a, generate)
		return
	}
	if a.Version().JobsForgeIdentity() {
		testForged(a)
		sandbox.Run(t, generate...)
	}
	sandbox.Run(t, append(generate, "--check")...) // asks Nomad for its alloc_dir
	testAll(a)
}

// writeNetworks writes the networks of the client, and returns the command that generates
// the conflist of its jobs.
func writeNetworks(t *testing.T) []string {
	t.Helper()
	for name, text := range conf {
		sandbox.WriteFile(t, filepath.Join(confDir, name), text)
	}
	for name, text := range restricted {
		sandbox.WriteFile(t, filepath.Join(ownDir, name), text)
	}
	for _, file := range glob(t, "../../dist/conf/*.conflist") {
		sandbox.WriteFile(t, filepath.Join(confDir, filepath.Base(file)), read(t, file))
	}
	sandbox.WriteFile(t, ownDir+"/47-lan100.conflist", documentedVLAN(t))
	return []string{allocnet, "conf", "generate", "web", "--conf-dir", ownDir + ":" + confDir, "--plugin-dir", plugins + ":" + sandbox.PluginDir()}
}

// testAll runs the tests with an agent whose jobs select networks in one form.
func testAll(a *agent) {
	t := a.T
	if got := a.attribute("plugins.cni.version.allocnet-cni"); got != "v0.1.0" {
		t.Errorf("plugins.cni.version.allocnet-cni is %q", got)
	}
	if got := a.attribute("plugins.cni.version.bridge"); !strings.HasPrefix(got, "v") {
		t.Fatalf("plugins.cni.version.bridge is %q, so that Nomad would call no CHECK: run: make tools", got)
	}
	a.checks = a.Has(nomadagent.CheckOnRestart) && sandbox.PluginsHave(t, sandbox.CheckOfPorts)
	a.warm()
	for _, test := range []struct {
		name string
		run  func(*agent)
	}{
		{"Issue", testIssue},
		{"Examples", testExamples},
		{"Connect", testConnect},
		{"LongEnds", testEnds},
		{"DNS", testDNS},
		{"Names", testNames},
		{"LongServices", testServices},
		{"Updates", testUpdates},
		{"LongErrors", testErrors},
		{"Restricted", testRestricted},
		{"AgentRestarts", testAgentRestarts},
		{"Check", testCheck},
		{"NamespaceGone", testNamespaceGone},
		{"LongCrowd", testCrowd},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := sandbox.Snapshot(t)
			a.T = t
			test.run(a)
			sandbox.RequireSame(t, before)
			requireNoState(t)
		})
		a.T = t
	}
	t.Run("Reboot", func(t *testing.T) { // last: links come back in another order
		before := sandbox.Inventory(t)
		a.T = t
		testReboot(a)
		if diff := cmp.Diff(before, sandbox.Inventory(t)); diff != "" {
			t.Errorf("the host is not as it was (-before +after):\n%s", diff)
		}
		requireNoState(t)
	})
	a.T = t
}

// warm attaches to every network once: bridges and shared chains remain.
func (a *agent) warm() {
	a.Helper()
	a.run("warm", group{port: publish, selects: `"storage,vlan,mgmt,backup,dynamic,tiny,names"`})
	a.Stop("warm")
	sandbox.Run(a, allocnet, "attach", "warm", "--primary=", "--networks", "closed", "--namespace", "prod", "--conf-dir", ownDir, "--plugin-dir", sandbox.PluginDir())
	sandbox.Run(a, allocnet, "detach", "warm")
}

func glob(t testing.TB, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %v", pattern, files, err)
	}
	return files
}

func read(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func requireNoState(t *testing.T) {
	t.Helper()
	sandbox.RequireNothing(t, "state", func() string {
		left, _ := filepath.Glob("/var/lib/allocnet/[^e]*/*") // without events
		return strings.Join(left, "\n")
	})
	if left, _ := filepath.Glob(dataDir + "/alloc/*/alloc/network-status.json"); len(left) != 0 {
		t.Errorf("files are left: %v", left)
	}
}

// reading is a template that the task has of network-status.json.
const reading = `
      template {
        source      = "${NOMAD_ALLOC_DIR}/network-status.json"
        destination = "local/status.json"
      }`

// issueJobs have the networks of the documentation's job, in each form of the selection. CNI
// arguments have variables of the allocation.
func issueJobs(a *agent) (one, two group) {
	one, two = group{port: publish, task: reading}, group{port: publish, driver: "exec", task: reading}
	if a.arguments {
		one.selects, one.networks = `"storage,mgmt@net5"`, `
    network {
      mode = "cni/backup"
      cni {
        args = {
          "networks.backup" = jsonencode({ interface = "net7", ips = ["10.2.0.1${NOMAD_ALLOC_INDEX}/24"] })
        }
      }
    }`
		two.selects = `jsonencode([{ name = "storage", ips = ["10.89.7.7/16"] }, { name = "mgmt" }])`
		return one, two
	}
	one.selects = `jsonencode([{ name = "storage" }, { name = "mgmt", interface = "net5" }, { name = "backup", interface = "net7", ips = ["10.2.0.10/24"] }])`
	two.networks, two.selects = "network {\nmode = \"cni/storage\"\n}", `"mgmt"`
	return one, two
}

// testIssue runs the job of the documentation in its two forms.
func testIssue(a *agent) {
	jobOne, jobTwo := issueJobs(a)
	one, two := a.run("one", jobOne)[0], a.run("two", jobTwo)[0]

	first, second := one.Setup(), two.Setup()
	if got := nomadagent.Networks(first); got != "eth0=web net1=storage net5=mgmt net7=backup" {
		a.Errorf("one has %s", got)
	}
	if got := nomadagent.Networks(second); got != "eth0=web net1=storage net2=mgmt" {
		a.Errorf("two has %s", got)
	}
	if got := address(a, first, "net7"); got != "10.2.0.10" {
		a.Errorf("net7 has %s, and the index of the allocation is 0", got)
	}
	for _, alloc := range []nomadagent.Allocation{one, two} {
		url := fmt.Sprintf("http://127.0.0.1:%d", port(alloc, "http"))
		if got := sandbox.Run(a, web, "get", url); !strings.HasPrefix(got, alloc.JobID+" 0, to ") {
			a.Errorf("%s answers %q", url, got)
		}
		attached := alloc.Setup()
		if alloc.NetworkStatus == nil || alloc.NetworkStatus.Address != address(a, attached, "eth0") || alloc.NetworkStatus.InterfaceName != "eth0" {
			a.Errorf("Nomad says %+v of %s", alloc.NetworkStatus, alloc.JobID)
		}
		if status := a.Nomad("alloc", "status", "-json", alloc.ID); !strings.Contains(status, address(a, attached, "eth0")) {
			a.Errorf("alloc status does not show the primary's address:\n%s", status)
		}
		requireStatusFile(a, alloc, attached)
		if got := alloc.Inside("ip", "link", "show", "lo"); !strings.Contains(got, "LOOPBACK,UP") { // Nomad leaves it down
			a.Errorf("%s has lo down:\n%s", alloc.JobID, got)
		}
	}
	if got := one.Inside(web, "get", "http://"+address(a, second, "net1")); !strings.HasPrefix(got, "two 0, to "+address(a, first, "net1")) {
		a.Errorf("over the extra network two answers %q", got)
	}
	if got := two.Inside(web, "get", "http://"+address(a, first, "net5")); !strings.HasPrefix(got, "one 0, to "+address(a, second, "net2")) {
		a.Errorf("over the extra network one answers %q", got)
	}
	want := policy.Identity{}
	if !a.arguments || a.Has(nomad.Identity) {
		want = policy.Identity{Namespace: "default", Job: "one", Group: "g", Region: "global"}
	}
	if first.Identity != want {
		a.Errorf("identity on record: %+v, want %+v", first.Identity, want)
	}
	a.Stop("one", "two")
}

// requireStatusFile compares network-status.json with the record, and the rendered
// template with the file.
func requireStatusFile(a *agent, alloc nomadagent.Allocation, attached *hook.Allocation) {
	a.Helper()
	want, err := json.MarshalIndent(attached.NetworkStatus(), "", "  ")
	if err != nil {
		a.Fatal(err)
	}
	for _, path := range []string{"alloc/network-status.json", "t/local/status.json"} {
		if got := strings.TrimSpace(alloc.File(path)); got != string(want) {
			a.Errorf("%s of %s is\n%s\nwant\n%s", path, alloc.JobID, got, want)
		}
	}
}
