// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/client"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// installPlugin installs allocnet-cni once, into the sandbox's /run.
var installPlugin = sync.OnceValues(func() (string, error) {
	return "/run/built", sandbox.InstallRaced("/run/built", "allocnet-cni")
})

// runtime is a CNI runtime with a conflist of allocnet-cni.
type runtime struct {
	*host
	cni  *libcni.CNIConfig
	list *libcni.NetworkConfigList
}

// runtime returns a runtime. Its conflist has the version, and a plugin configuration
// with additional keys.
func (h *host) runtime(cniVersion, more string) *runtime {
	h.t.Helper()
	return h.runtimeOf(fmt.Sprintf(`{"cniVersion": %q, "name": "multi", "plugins": [%s]}`, cniVersion, h.entry(more)))
}

// entry is the plugin configuration of allocnet-cni in a conflist.
func (h *host) entry(more string) string {
	return fmt.Sprintf(`{"type": "allocnet-cni", "capabilities": {"portMappings": true}, "confDir": %q, "stateDir": %q, "executor": %q, "pluginDir": %q, %s}`,
		h.conf, h.state, sandbox.Executor(), sandbox.PluginDir()+":"+h.plugins, more)
}

func (h *host) runtimeOf(conflist string) *runtime {
	h.t.Helper()
	h.t.Setenv("GORACE", "atexit_sleep_ms=0")
	dir, err := installPlugin()
	if err != nil {
		h.t.Fatal(err)
	}
	list, err := libcni.NetworkConfFromBytes([]byte(conflist))
	if err != nil {
		h.t.Fatal(err)
	}
	return &runtime{h, libcni.NewCNIConfig([]string{dir, sandbox.PluginDir(), h.plugins}, nil), list}
}

// container creates a namespace and returns the parameters that runtimes pass for it.
func (h *host) container(id string, args ...string) *libcni.RuntimeConf {
	h.t.Helper()
	path, err := netns.Create(netns.DefaultDir, id)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = netns.Remove(path) })
	c := &libcni.RuntimeConf{ContainerID: id, NetNS: path, IfName: "eth0", Args: [][2]string{{"IgnoreUnknown", "true"}}}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		c.Args = append(c.Args, [2]string{key, value})
	}
	return c
}

func (r *runtime) add(c *libcni.RuntimeConf) *types100.Result {
	r.t.Helper()
	result, err := r.cni.AddNetworkList(context.Background(), r.list, c)
	if err != nil {
		r.t.Fatal(err)
	}
	converted, err := types100.NewResultFromResult(result)
	if err != nil {
		r.t.Fatal(err)
	}
	return converted
}

// refuseAdd runs an ADD that has to fail with the code. The message has to have the
// words.
func (r *runtime) refuseAdd(c *libcni.RuntimeConf, code uint, words ...string) {
	r.t.Helper()
	_, err := r.cni.AddNetworkList(context.Background(), r.list, c)
	requireCode(r.t, err, code, words...)
}

func requireCode(t *testing.T, err error, code uint, words ...string) {
	t.Helper()
	var own *types.Error
	if !errors.As(err, &own) || own.Code != code {
		t.Errorf("got %v, want a CNI error with code %d", err, code)
		return
	}
	for _, word := range append(words, "") {
		if !strings.Contains(own.Msg, word) || strings.Contains(own.Msg, "\n") {
			t.Errorf("%q does not say %q in one line", own.Msg, word)
		}
	}
}

func (r *runtime) check(c *libcni.RuntimeConf) error {
	return r.cni.CheckNetworkList(context.Background(), r.list, c)
}

func (r *runtime) del(c *libcni.RuntimeConf) {
	r.t.Helper()
	if err := r.cni.DelNetworkList(context.Background(), r.list, c); err != nil {
		r.t.Errorf("DEL: %v", err)
	}
}

// inside returns the interfaces of a container, without lo.
func inside(t *testing.T, c *libcni.RuntimeConf) []string {
	t.Helper()
	ns, err := netns.Open(c.NetNS)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	list, err := ns.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range list {
		if i.Name != "lo" {
			names = append(names, i.Name)
		}
	}
	return names
}

// TestConformance goes through the life of a container in every version of the
// specification, and through the agent.
func TestConformance(t *testing.T) {
	versions := version.VersionsStartingFrom("0.3.0").SupportedVersions()
	if testing.Short() {
		versions = []string{versions[0], "0.4.0", versions[len(versions)-1]} // 0.4.0 is the first with CHECK; the others are as one of these
	}
	for _, v := range versions {
		t.Run(v, func(t *testing.T) { requireConformance(newHost(t), v, "") })
	}
	t.Run("by the agent", func(t *testing.T) {
		h := newHost(t)
		requireConformance(h, "1.1.0", h.startAgent())
	})
}

// startAgent starts an agent, and returns the keys that have calls delegated to it.
func (h *host) startAgent() (keys string) {
	h.t.Helper()
	socket := filepath.Join(h.t.TempDir(), "run", "agent.sock")
	cmd := h.command("agent", "--socket", socket, "--config", h.t.TempDir())
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		_ = cmd.Process.Signal(unix.SIGTERM)
		if err := cmd.Wait(); err != nil || strings.Contains(log.String(), "DATA RACE") {
			h.t.Errorf("the agent ended with %v\n%s", err, log.String())
		}
	})
	sandbox.Eventually(h.t, "the agent is ready", func() bool { return client.New(socket).Ready(context.Background()) == nil }, func() string { return "" })
	return fmt.Sprintf(`, "agent": {"socket": %q, "mode": "require"}`, socket)
}

func requireConformance(h *host, cniVersion, keys string) {
	t := h.t
	t.Helper()
	r := h.runtime(cniVersion, `"primary": "web", "networks": "peer"`+keys)
	c := h.container("c1", "networks=storage@data0,vlan")
	c.CapabilityArgs = map[string]any{"portMappings": []map[string]any{{"HostPort": 8080, "ContainerPort": 80, "Protocol": "tcp", "HostIP": ""}}}
	r.del(c) // of a container without attachments

	result := r.add(c)
	if got := inside(t, c); !slices.Equal(got, []string{"data0", "eth0", "net2", "net3"}) {
		t.Errorf("interfaces inside: %v", got)
	}
	if len(result.IPs) != 1 || !strings.HasPrefix(result.IPs[0].Address.String(), "10.88.") || result.Interfaces[*result.IPs[0].Interface].Name != "eth0" {
		t.Errorf("result: %+v, want the primary's alone", result)
	}
	serve(t, c.NetNS, ":80", "c1 here")
	if text, err := get("http://127.0.0.1:8080"); err != nil || text != "c1 here" {
		t.Errorf("the published port answers %q, %v", text, err)
	}

	r.refuseAdd(c, 101, "c1", "set up already")
	if text, err := get("http://127.0.0.1:8080"); err != nil || text != "c1 here" {
		t.Errorf("after a second ADD the port answers %q, %v", text, err)
	}
	r.requireChecks(cniVersion, c)
	r.del(c)
	r.del(c)
	if got := inside(t, c); len(got) != 0 {
		t.Errorf("left inside: %v", got)
	}
}

// requireChecks fails the test unless CHECK passes, also after a change that it can repair, and fails after one
// that it cannot.
func (r *runtime) requireChecks(v string, c *libcni.RuntimeConf) {
	r.t.Helper()
	err := r.check(c)
	if old, _ := version.GreaterThan("0.4.0", v); old {
		if !errors.Is(err, libcni.ErrorCheckNotSupp) {
			r.t.Errorf("CHECK in %s: %v", v, err)
		}
		return
	}
	if err != nil {
		r.t.Errorf("CHECK: %v", err)
	}
	sandbox.Run(r.t, "ip", "-n", c.ContainerID, "link", "set", "net2", "down")
	if err := r.check(c); err != nil {
		r.t.Errorf("CHECK while net2 is down: %v", err)
	}
	// With an agent that repairs at the same time CHECK may find the allocation locked.
	show := func() string { return sandbox.Run(r.t, "ip", "-n", c.ContainerID, "link", "show", "net2") }
	sandbox.Eventually(r.t, "CHECK has set up net2", func() bool { return strings.Contains(show(), ",UP") }, show)
	sandbox.Run(r.t, "ip", "-n", c.ContainerID, "link", "delete", "data0")
	sandbox.Eventually(r.t, "CHECK fails without data0", func() bool {
		err = r.check(c)
		return err != nil && strings.Contains(err.Error(), "data0")
	}, func() string { return fmt.Sprint(err) })
}

// TestCHECKPasses: CHECK passes without the agent, and with a plugin configuration in
// which only the state directory is valid.
func TestCHECKPasses(t *testing.T) {
	h := newHost(t)
	r := h.runtime("1.0.0", `"primary": "web"`)
	c := h.container("c1", "networks=storage")
	r.add(c)
	for _, more := range []string{
		`"primary": "web", "agent": {"socket": "/run/no-agent.sock", "mode": "require"}`,
		`"primary": 5, "timeout": "soon", "network": "x"`,
		`"primary": "unknown", "logFile": "/no/such/directory/log"`,
	} {
		if err := h.runtime("1.0.0", more).check(c); err != nil {
			t.Errorf("with %s: %v", more, err)
		}
	}
	if err := os.Chmod(h.state, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := r.check(c); err != nil {
		t.Errorf("with a state directory that is refused: %v", err)
	}
	if err := os.Chmod(h.state, 0o700); err != nil {
		t.Fatal(err)
	}
	r.del(c)
}

// TestNoSystemPath: if the PATH of the runtime lacks the host's directories, plugins and
// forced cleanup still find the programs that they need.
func TestNoSystemPath(t *testing.T) {
	h := newHost(t)
	r := h.runtime("1.0.0", `"primary": "web"`)
	c := h.container("c1", "networks=storage")
	before := sandbox.Snapshot(t)
	r.add(c)
	path := os.Getenv("PATH")
	t.Setenv("PATH", t.TempDir())
	if err := r.check(c); err != nil {
		t.Errorf("CHECK: %v", err)
	}
	r.del(c)
	t.Setenv("PATH", path)
	c = h.container("c2", "networks=storage")
	r.add(c)
	t.Setenv("PATH", t.TempDir())
	if err := netns.Remove(c.NetNS); err != nil { // so that the plugins leave rules
		t.Fatal(err)
	}
	r.del(c)
	t.Setenv("PATH", path)
	if after := sandbox.Snapshot(t); after != before {
		t.Errorf("left on the host:\n%s", after)
	}
}

// TestAddAfterLoss: after a failed CHECK, or a reboot, runtimes create the namespace
// again and run ADD with the old container ID, without DEL.
func TestAddAfterLoss(t *testing.T) {
	h := newHost(t)
	r := h.runtime("1.0.0", `"primary": "web"`)
	c := h.container("c1", "networks=storage")
	first := r.add(c)
	if err := netns.Remove(c.NetNS); err != nil {
		t.Fatal(err)
	}
	if _, err := netns.Create(netns.DefaultDir, "c1"); err != nil {
		t.Fatal(err)
	}
	if err := r.check(c); err == nil {
		t.Error("CHECK passes in a namespace that is new")
	}
	second := r.add(c)
	if err := r.check(c); err != nil {
		t.Errorf("CHECK: %v", err)
	}
	if leases, _ := filepath.Glob("/var/lib/cni/networks/*/10.*"); len(leases) != 2 {
		t.Errorf("leases after %v and %v: %v, want one of each network", first.IPs, second.IPs, leases)
	}
	r.del(c)
}

// TestGone: the namespace is gone before DEL, which gets no path then.
func TestGone(t *testing.T) {
	h := newHost(t)
	r := h.runtime("1.0.0", `"primary": "web"`)
	c := h.container("c1", "networks=storage")
	c.CapabilityArgs = map[string]any{"portMappings": []map[string]any{{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}}}
	r.add(c)
	if err := netns.Remove(c.NetNS); err != nil {
		t.Fatal(err)
	}
	c.NetNS, c.Args = "", nil // Nomad passes no arguments at DEL
	r.del(c)
}

// TestBehindOthers: at the end of a chain, the plugin attaches the networks of the job
// and returns prevResult.
func TestBehindOthers(t *testing.T) {
	h := newHost(t)
	// The bridge of a gateway keeps its MAC when ports are added. Without a gateway,
	// CHECK of the bridge plugin fails because the MAC has changed.
	bridge := `{"type": "bridge", "bridge": "web0", "ipam": {"type": "host-local", "subnet": "10.94.0.0/16", "dataDir": "/run/chained"}}`
	defer os.RemoveAll("/run/chained")
	r := h.runtimeOf(fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "chained", "plugins": [%s, %s]}`, bridge, h.entry(`"networks": ""`)))
	c := h.container("c1", "networks=storage")
	if names := resultNames(r.add(c)); !slices.Equal(names, []string{"eth0=10.94"}) {
		t.Errorf("result: %v", names)
	}
	if got := inside(t, c); !slices.Equal(got, []string{"eth0", "net1"}) {
		t.Errorf("interfaces inside: %v", got)
	}
	if err := r.check(c); err != nil {
		t.Errorf("CHECK: %v", err)
	}
	r.del(c)
	plain := h.container("c2")
	if names := resultNames(r.add(plain)); !slices.Equal(names, []string{"eth0=10.94"}) {
		t.Errorf("without a network of the job: %v", names)
	}
	if err := r.check(plain); err != nil {
		t.Errorf("CHECK without a network: %v", err)
	}
	r.del(plain)

	all := h.runtimeOf(fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "all", "plugins": [%s, %s]}`, bridge, h.entry(`"result": "all"`)))
	refused := h.container("c5")
	all.refuseAdd(refused, 7, "result", "CHECK")
	all.del(refused)
	first := h.runtimeOf(`{"cniVersion": "1.0.0", "name": "first", "plugins": [` + h.entry(`"networks": ""`) + `]}`)
	first.refuseAdd(h.container("c3"), 7, "primary")
	both := h.runtimeOf(fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "both", "plugins": [%s, %s]}`, bridge, h.entry(`"primary": "storage"`)))
	c4 := h.container("c4")
	both.refuseAdd(c4, 7, "storage", "before it")
	both.del(c4)
}

func resultNames(r *types100.Result) []string {
	var names []string
	for _, ip := range r.IPs {
		text := ip.Address.String()
		names = append(names, fmt.Sprintf("%s=%s", r.Interfaces[*ip.Interface].Name, text[:min(5, len(text))]))
	}
	for i, name := range names {
		names[i] = strings.TrimRight(name, ".:")
	}
	return names
}

// TestDelegates: the networks can be in the conflist itself, with or without a CNI
// configuration directory.
func TestDelegates(t *testing.T) {
	h := newHost(t)
	delegates := `"delegates": [
		{"cniVersion": "1.0.0", "name": "main", "type": "bridge", "bridge": "web0", "ipam": {"type": "host-local", "subnet": "10.95.0.0/16", "dataDir": "/run/delegates"}},
		{"cniVersion": "0.4.0", "name": "side", "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.96.0.0/16", "dataDir": "/run/delegates"}}]}]`
	defer os.RemoveAll("/run/delegates")
	r := h.runtime("1.0.0", delegates+`, "result": "all"`)
	c := h.container("c1", "networks=storage")
	if names := resultNames(r.add(c)); !slices.Equal(names, []string{"eth0=10.95", "net1=10.89", "net1=fd00", "net2=10.96"}) {
		t.Errorf("result: %v", names)
	}
	if err := r.check(c); err != nil {
		t.Errorf("CHECK: %v", err)
	}
	if got := inside(t, c); !slices.Equal(got, []string{"eth0", "net1", "net2"}) {
		t.Errorf("interfaces inside: %v", got)
	}
	r.del(c)
	h.conf = filepath.Join(t.TempDir(), "none")
	r = h.runtime("1.0.0", delegates)
	c = h.container("c2")
	r.add(c)
	if got := inside(t, c); !slices.Equal(got, []string{"eth0", "net1"}) {
		t.Errorf("without a CNI configuration directory, inside: %v", got)
	}
	r.del(c)
}

// TestStrangers: ADD and DEL with the container ID of another runtime's attachment do not
// change it, whatever network or interface they name.
func TestStrangers(t *testing.T) {
	h := newHost(t)
	r := h.runtime("1.0.0", `"primary": "storage"`)
	other := h.runtimeOf(`{"cniVersion": "1.0.0", "name": "other", "plugins": [` + h.entry(`"primary": "peer"`) + `]}`)
	c := h.container("c1")
	r.add(c)
	second := *c
	second.IfName = "eth1"
	other.refuseAdd(&second, 101, "c1")
	other.del(&second)
	second.IfName = "eth0"
	other.del(&second)
	if err := r.check(c); err != nil {
		t.Errorf("after a stranger's DEL: %v", err)
	}
	r.del(c)
}

// TestCollect: GC removes what is not valid and has no namespace any more. A list that lacks what
// lives is no reason to remove it, and without a list nothing is removed.
func TestCollect(t *testing.T) {
	h := newHost(t)
	r := h.runtime("1.1.0", `"primary": "storage"`)
	other := h.runtimeOf(`{"cniVersion": "1.1.0", "name": "other", "plugins": [` + h.entry(`"primary": "storage"`) + `]}`)
	valid, stale, stranger, lives := h.container("valid"), h.container("stale"), h.container("stranger"), h.container("lives")
	r.add(valid)
	r.add(stale)
	r.add(lives)
	other.add(stranger)
	h.must("attach", "by-hand", "--primary", "storage")
	// libcni runs DEL for the attachments in its cache: GC has to remove this one without
	// it.
	removeCache(t, "multi-stale-eth0")
	removeCache(t, "multi-lives-eth0")
	sandbox.Run(t, "ip", "netns", "delete", "stale")
	uncached := libcni.NewCNIConfigWithCacheDir(r.cni.Path, t.TempDir(), nil) // libcni would run DEL for all that it has
	requireCode(t, uncached.GCNetworkList(context.Background(), r.list, nil), types.ErrInvalidNetworkConfig, "cni.dev/valid-attachments")
	if o := h.allocnet("status", "stale"); o.code != 0 {
		t.Errorf("GC without a list: status has %d: %s", o.code, o.stderr)
	}
	err := r.cni.GCNetworkList(context.Background(), r.list, &libcni.GCArgs{ValidAttachments: []types.GCAttachment{{ContainerID: "valid", IfName: "eth0"}}})
	if err != nil {
		t.Error(err)
	}
	for id, want := range map[string]int{"valid": 0, "stranger": 0, "by-hand": 0, "lives": 0, "stale": 3} {
		if o := h.allocnet("check", id); o.code != want {
			t.Errorf("%s: exit code %d, want %d: %s", id, o.code, want, o.stderr)
		}
	}
	r.del(valid)
	r.del(stale)
	r.del(lives)
	other.del(stranger)
	h.must("detach", "by-hand")
}

// TestStatusVerb: STATUS tells whether an ADD could succeed.
func TestStatusVerb(t *testing.T) {
	h := newHost(t)
	sandbox.WriteFile(t, h.conf+"/98-down.conf", `{"cniVersion": "1.1.0", "name": "down", "type": "fakecni", "fake": {"verbs": {"STATUS": {"code": 50, "msg": "no fabric"}}}}`)
	for more, want := range map[string]string{
		`"primary": "web", "networks": "vlan"`: "",
		`"primary": "none"`:                    "none",
		`"primary": "down"`:                    "no fabric",
	} {
		r := h.runtime("1.1.0", more)
		err := r.cni.GetStatusNetworkList(context.Background(), r.list)
		if want == "" && err != nil {
			t.Errorf("%s: %v", more, err)
		}
		if want != "" {
			requireCode(t, err, types.ErrPluginNotAvailable, want)
		}
	}
}

// TestRefusedAdd: a refused ADD leaves nothing, and its message has one line.
func TestRefusedAdd(t *testing.T) {
	h := newHost(t)
	sandbox.WriteFile(t, h.conf+"/21-closed.conflist", `{"cniVersion": "1.0.0", "name": "closed", "allocnet": {"namespaces": ["prod"], "staticIPs": false},
		"plugins": [{"type": "bridge", "bridge": "storage0", "capabilities": {"ips": true}, "ipam": {"type": "host-local", "subnet": "10.97.0.0/29", "dataDir": "/run/closed"}}]}`)
	defer os.RemoveAll("/run/closed")
	r := h.runtime("1.0.0", `"primary": "web"`)
	nomad := func(id, namespace, networks string) *libcni.RuntimeConf {
		return h.container(id, "NOMAD_ALLOC_ID="+id, "NOMAD_NAMESPACE="+namespace, "NOMAD_JOB_ID=db", "networks="+networks)
	}
	r.refuseAdd(h.container("c1", "networks=storag"), 7, `unknown network "storag"`, "storage")
	r.refuseAdd(h.container("c2", "networks=multi"), 7, `"multi"`)
	r.refuseAdd(nomad("c3", "dev", "closed"), 7, "closed", "net1", `namespace "dev"`, "21-closed.conflist")
	r.refuseAdd(h.container("c4", "networks=closed"), 7, "the namespace is unknown")
	r.refuseAdd(nomad("c5", "prod", `[{"name": "closed", "ips": ["10.97.0.3/29"]}]`), 7, "staticIPs")
	r.refuseAdd(h.container("c6", "NOMAD_NAMESPACE=prod", "networks=closed"), 4, "NOMAD_ALLOC_ID")
	r.refuseAdd(h.container("c7", "networks=storage@eth0"), 7, "eth0", "primary")
	r.refuseAdd(h.container("c12", "networks=storage@net%d"), 7, "net%d")
	r.refuseAdd(h.container("c13", `networks=[{"name":"web","portMappings":[{"hostPort":80,"hostIP":"::1%x accept"}]}]`), 7, "without a zone")
	own := h.container("c8")
	own.NetNS = "/proc/self/ns/net"
	r.refuseAdd(own, 8, "host's own")
	allowed := nomad("c9", "prod", "closed")
	r.add(allowed)
	if a := h.must("status", "c9", "--json"); !strings.Contains(a, `"namespace": "prod"`) || !strings.Contains(a, `"job": "db"`) {
		t.Errorf("the identity is not on record: %s", a)
	}
	r.del(allowed)
	noPorts := h.runtimeOf(strings.Replace(fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "multi", "plugins": [%s]}`, h.entry(`"primary": "web"`)), `"portMappings": true`, `"ips": true`, 1))
	noPorts.refuseAdd(h.container("c10"), 7, "portMappings", "conf generate")
	closedPorts := h.container("c11")
	closedPorts.CapabilityArgs = map[string]any{"portMappings": []map[string]any{{"HostPort": 8080, "ContainerPort": 80, "Protocol": "tcp"}}}
	h.runtime("1.0.0", `"primary": "storage"`).refuseAdd(closedPorts, 7, "storage", "portMappings")
}

// TestDeadline: a plugin that hangs is killed, and the other attachments are undone.
func TestDeadline(t *testing.T) {
	h := newHost(t)
	h.fake("stuck", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"ADD": {Hang: true}}})
	r := h.runtime("1.0.0", `"primary": "web", "timeout": "8s"`)
	r.refuseAdd(h.container("c1", "networks=stuck,storage"), 11, "stuck", "net1", "did not answer ADD within")
}

// TestBadResult: Nomad's agent crashes on an index that is out of range.
func TestBadResult(t *testing.T) {
	h := newHost(t)
	for name, output := range map[string]string{
		"index": `{"cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": "/x"}], "ips": [{"interface": 1, "address": "10.0.0.1/24"}]}`,
		"null":  `{"cniVersion": "1.0.0", "ips": [null]}`,
	} {
		h.fake(name, fakecni.Script{Verbs: map[string]fakecni.Behaviour{"ADD": {Output: output}}})
		_, err := h.runtime("1.0.0", `"primary": "`+name+`"`).cni.AddNetworkList(context.Background(), h.runtime("1.0.0", `"primary": "`+name+`"`).list, h.container("c-"+name))
		requireCode(t, err, 999, name, "eth0", "ips[0]")
	}
}

// TestFilesForTasks: network-status.json and network.env are written for allocations of a
// Nomad client.
func TestFilesForTasks(t *testing.T) {
	h := newHost(t)
	allocDir := t.TempDir()
	r := h.runtime("1.0.0", fmt.Sprintf(`"primary": "web", "allocDir": %q`, allocDir))
	c := h.container("c1", "NOMAD_ALLOC_ID=c1", "NOMAD_NAMESPACE=prod", "networks=storage")
	r.refuseAdd(c, 7, fmt.Sprintf("allocDir %q", allocDir), "alloc_dir of the Nomad client")
	if got := inside(t, c); len(got) != 0 {
		t.Errorf("left inside: %v", got)
	}
	file := filepath.Join(allocDir, "c1", "alloc", "network-status.json")
	env := filepath.Join(filepath.Dir(file), "network.env")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	r.add(c)
	var status []hook.NetworkStatus
	if err := json.Unmarshal([]byte(read(t, file)), &status); err != nil || len(status) != 2 || status[1].Interface != "net1" {
		t.Errorf("%s: %v, %v", file, status, err)
	}
	if text := read(t, env); !strings.Contains(text, "ALLOCNET_IP_web=") || !strings.Contains(text, "ALLOCNET_INTERFACE_storage=net1\n") {
		t.Errorf("%s:\n%s", env, text)
	}
	r.del(c)
	if left, _ := os.ReadDir(filepath.Dir(file)); len(left) != 0 {
		t.Errorf("files outlive the allocation: %v", left)
	}
	stranger := h.container("c2") // of podman, for example
	r.add(stranger)
	r.del(stranger)
}

// TestTransparentProxy: consul-cni, at the end of the documented chain, gets what Nomad
// sets for it.
func TestTransparentProxy(t *testing.T) {
	h := newHost(t)
	seen := filepath.Join(t.TempDir(), "args")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	plugin := fmt.Sprintf("#!/bin/sh\n[ $CNI_COMMAND != ADD ] || printf %%s \"$CNI_ARGS\" > %s\nexec -a consul-cni %s\n", seen, self)
	if err := os.WriteFile(filepath.Join(h.plugins, "consul-cni"), []byte(strings.Replace(plugin, "/bin/sh", "/bin/bash", 1)), 0o700); err != nil {
		t.Fatal(err)
	}
	page := read(t, "../docs/nomad.md")
	_, page, _ = strings.Cut(page, "<!-- tested: transparent proxy -->\n```json\n")
	conflist, _, found := strings.Cut(page, "```")
	if !found {
		t.Fatal("docs/nomad.md has no conflist for a transparent proxy")
	}
	defer os.RemoveAll("/run/mesh-leases")
	sandbox.WriteFile(t, h.conf+"/50-mesh.conflist", strings.Replace(conflist, `"host-local"`, `"host-local", "dataDir": "/run/mesh-leases"`, 1))
	r := h.runtime("1.0.0", `"primary": "mesh", "networks": "storage"`)
	settings := `{"ConsulDNSIP":"","ConsulDNSPort":0,"ProxyUserID":"101","ProxyInboundPort":20000,"ProxyOutboundPort":15001,"ExcludeInboundPorts":["5433"]}`
	c := h.container("c1", "CONSUL_IPTABLES_CONFIG="+settings)
	r.add(c)
	if args := read(t, seen); !strings.Contains(args, "CONSUL_IPTABLES_CONFIG="+settings) || !strings.Contains(args, "IgnoreUnknown=") {
		t.Errorf("consul-cni gets CNI_ARGS %s", args)
	}
	r.del(c)
	sandbox.Run(t, "ip", "link", "del", "mesh0")
}
