// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadclient

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/nomad/api"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
	"github.com/allocnet/allocnet/internal/sandbox/nomadclient"
	"github.com/allocnet/allocnet/nomad"
)

// networks are those of the client in addition to those of dist/conf.
var networks = map[string]string{
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

// host is a Nomad client with allocnet-cni.
type host struct {
	*testing.T
	config nomadclient.Config
	client *nomadclient.Client
	// api is the HTTP API of Nomad, as far as the tests need it.
	api *server
}

// newHost is a client with the networks, whose conflist for jobs "allocnet conf generate" has written. The
// host is as before when the test ends.
func newHost(t *testing.T, version nomad.Version) *host {
	t.Helper()
	h := &host{T: t, api: newServer(t, version), config: nomadclient.Config{
		Version: version, PluginDirs: []string{plugins, sandbox.PluginDir()}, ConfDir: confDir, AllocDir: allocDir,
		Pause: func(time.Duration) {},
	}}
	h.client = nomadclient.New(h.config)
	t.Cleanup(func() { sandbox.Run(t, "sh", "-c", "rm -r "+confDir+"/* "+ownDir+"/*") })
	for name, text := range networks {
		h.write(confDir+"/"+name, text)
	}
	for name, text := range restricted {
		h.write(ownDir+"/"+name, text)
	}
	for _, file := range glob(t, "../../dist/conf/*.conflist") {
		h.write(confDir+"/"+filepath.Base(file), read(t, file))
	}
	h.write(ownDir+"/47-lan100.conflist", documentedVLAN(t))
	h.allocnet(h.generate()...)
	warm.Do(h.warm)
	before := sandbox.Inventory(t)
	t.Cleanup(func() {
		h.requireSame(before)
		h.requireNoState()
	})
	return h
}

// documentedVLAN returns the network of docs/vlan.md, on the link of the tests.
func documentedVLAN(t *testing.T) string {
	t.Helper()
	_, text, _ := strings.Cut(read(t, "../../docs/vlan.md"), "30-lan100.conflist <<'END'\n")
	text, _, found := strings.Cut(text, "   END\n")
	if !found {
		t.Fatal("docs/vlan.md has no network")
	}
	return strings.Replace(text, "eno1.100", "uplink", 1)
}

// requireSame waits until the host is as it was. A test that has failed does not wait.
func (h *host) requireSame(before []string) {
	h.Helper()
	sandbox.RequireNothing(h.T, "difference (-before +after)", func() string {
		return cmp.Diff(before, sandbox.Inventory(h.T))
	})
}

// generate are the arguments of the command that writes the conflist for jobs.
func (h *host) generate() []string {
	return []string{"conf", "generate", "web", "--conf-dir", ownDir + ":" + confDir, "--plugin-dir", plugins + ":" + sandbox.PluginDir()}
}

var warm sync.Once

// warm attaches to every network once: bridges and shared chains remain.
func (h *host) warm() {
	h.Helper()
	h.stop(h.one(group("warm", args{"networks": "storage,vlan,mgmt,backup,dynamic,tiny,names"})))
	h.allocnet("attach", "warm", "--primary=", "--networks", "closed", "--namespace", "prod", "--conf-dir", ownDir, "--plugin-dir", sandbox.PluginDir())
	h.allocnet("detach", "warm")
	if err := os.MkdirAll("/var/lib/allocnet/job-networks", 0o700); err != nil { // the agent's
		h.Fatal(err)
	}
}

func (h *host) requireNoState() {
	h.Helper()
	sandbox.RequireNothing(h.T, "state", func() string {
		left, _ := filepath.Glob("/var/lib/allocnet/[^e]*/*") // without events
		return strings.Join(left, "\n")
	})
	if left, _ := filepath.Glob(allocDir + "/*/alloc/network-status.json"); len(left) != 0 {
		h.Errorf("files are left: %v", left)
	}
}

// allocnet runs the command line, which has to succeed.
func (h *host) allocnet(args ...string) string {
	h.Helper()
	out, err := exec.Command(allocnet, args...).CombinedOutput()
	if err != nil {
		h.Fatalf("allocnet %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (h *host) write(path, text string) {
	h.Helper()
	sandbox.WriteFile(h.T, path, text)
}

// start runs the allocations of a group.
func (h *host) start(g nomadclient.Group) []*nomadclient.Allocation {
	h.Helper()
	started, err := h.client.Run(g)
	if err != nil {
		h.Fatalf("%s: %v", g.Job, err)
	}
	return started
}

// one runs a group of one allocation.
func (h *host) one(g nomadclient.Group) *nomadclient.Allocation {
	h.Helper()
	return h.start(g)[0]
}

// stop stops allocations, whose teardown has to succeed.
func (h *host) stop(allocations ...*nomadclient.Allocation) {
	h.Helper()
	for _, a := range allocations {
		h.client.Stop(a)
		if a.Leaked != nil {
			h.Errorf("the teardown of %s: %v", a.Group.Job, a.Leaked)
		}
	}
}

// refuse runs a group, whose network cannot be set up, and returns what Nomad shows.
func (h *host) refuse(g nomadclient.Group) string {
	h.Helper()
	a, err := h.client.Run(g)
	if err == nil {
		h.Errorf("%s runs with %s", g.Job, nomadagent.Networks(h.setup(a[0])))
		h.stop(a...)
		return ""
	}
	return err.Error()
}

// setup returns what allocnet has on record of an allocation.
func (h *host) setup(a *nomadclient.Allocation) *hook.Allocation {
	h.Helper()
	var found hook.Allocation
	if err := json.Unmarshal([]byte(h.status(a)), &found); err != nil {
		h.Fatal(err)
	}
	return &found
}

func (h *host) status(a *nomadclient.Allocation) string {
	h.Helper()
	return h.allocnet("status", "--json", a.ID)
}

// requireNetworks requires what is attached, as "interface=network".
func (h *host) requireNetworks(a *nomadclient.Allocation, want string) *hook.Allocation {
	h.Helper()
	found := h.setup(a)
	if got := nomadagent.Networks(found); got != want {
		h.Errorf("%s has %s, want %s", a.Group.Job, got, want)
	}
	return found
}

// inside runs a command in the allocation's namespace.
func inside(t *testing.T, a *nomadclient.Allocation, words ...string) string {
	t.Helper()
	return sandbox.Run(t, append([]string{"ip", "netns", "exec", a.ID}, words...)...)
}

// task starts the task of an allocation, which answers with the name of the job, and returns its process.
func (h *host) task(a *nomadclient.Allocation) *os.Process {
	h.Helper()
	cmd := exec.Command("ip", "netns", "exec", a.ID, web, "serve", fmt.Sprintf("%s %d", a.Group.Job, a.Index))
	if err := cmd.Start(); err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() {
		_ = cmd.Process.Signal(unix.SIGKILL)
		_ = cmd.Wait() // it was killed
	})
	return cmd.Process
}

// address returns the first address of an interface.
func address(t *testing.T, a *hook.Allocation, iface string) string {
	t.Helper()
	for _, n := range a.Attachments {
		if n.Interface == iface && len(n.Addresses) > 0 {
			return n.Addresses[0].Addr().String()
		}
	}
	t.Errorf("%s of %s has no address", iface, a.ID)
	return ""
}

// url is that of the allocation's first port on the host.
func url(a *nomadclient.Allocation) string {
	return fmt.Sprintf("http://127.0.0.1:%d", a.Ports[0].Static)
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %v", pattern, files, err)
	}
	return files
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

type args map[string]string

// extra selects two networks.
var extra = args{"networks": "storage,mgmt"}

// group is a job with a port on the network for jobs, with arguments, and with further network blocks.
func group(job string, a args, more ...nomadclient.Network) nomadclient.Group {
	first := nomadclient.Network{Mode: "cni/multi", Args: a, Ports: []nomadclient.Port{{Label: "http", To: 80}}}
	return nomadclient.Group{Job: job, Name: "g", Networks: append([]nomadclient.Network{first}, more...)}
}

// eachVersion runs a test with each version whose client differs.
func eachVersion(t *testing.T, test func(*host)) {
	t.Helper()
	with(t, nomadclient.Versions(), test)
}

// oldestAndNewest runs a test that asserts nothing of versions between.
func oldestAndNewest(t *testing.T, test func(*host)) {
	t.Helper()
	with(t, []nomad.Version{nomad.JobArguments, newest()}, test)
}

func with(t *testing.T, versions []nomad.Version, test func(*host)) {
	t.Helper()
	for _, version := range versions {
		t.Run(version.String(), func(t *testing.T) { test(newHost(t, version)) })
	}
}

// newest is the last version whose client differs.
func newest() nomad.Version {
	versions := nomadclient.Versions()
	return versions[len(versions)-1]
}

// server answers as Nomad's HTTP API. NOMAD_ADDR has its address.
type server struct {
	*httptest.Server
	mu sync.Mutex
	// answers are values by path.
	answers map[string]any
	// allocation is the answer for every allocation. Nil: there is none.
	allocation *api.Allocation
}

func newServer(t *testing.T, version nomad.Version) *server {
	t.Helper()
	s := &server{answers: map[string]any{"/v1/agent/self": map[string]any{
		"config": map[string]any{"DataDir": dataDir, "Version": map[string]string{"Version": version.String()}, "Client": map[string]any{"Enabled": true, "CNIConfigDir": confDir}},
		"stats":  map[string]any{"client": map[string]string{"node_id": node}},
	}}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	t.Setenv("NOMAD_ADDR", s.URL)
	return s
}

const node = "99999999-2222-3333-4444-555555555555"

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	answer, found := s.answers[r.URL.Path]
	if !found {
		answer, found = s.allocationOf(r)
	}
	s.mu.Unlock()
	if !found {
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(answer) // the client sees what is missing
}
