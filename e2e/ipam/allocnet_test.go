// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"bytes"
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/cluster/ipam/linked"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/inprocess"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// host runs allocnet with networks of a pool.
type host struct {
	*pool
	conf, records, executor string
	// plugins has the plugins. Empty: all of the sandbox.
	plugins string
	// namespace is the network namespace that is the host. Empty: the sandbox's.
	namespace string
}

// program returns allocnet on the host.
func (h *host) program(args ...string) *exec.Cmd {
	command := append([]string{allocnet}, args...)
	if h.namespace != "" {
		command = append([]string{"nsenter", "--net=/run/netns/" + h.namespace}, command...)
	}
	cmd := exec.Command(command[0], command[1:]...)
	plugins := h.plugins
	if plugins == "" {
		plugins = sandbox.PluginDir()
	}
	cmd.Env = append(os.Environ(), "ALLOCNET_CONF_DIR="+h.conf, "ALLOCNET_PLUGIN_DIR="+plugins, "ALLOCNET_STATE_DIR="+h.records, "ALLOCNET_EXECUTOR="+h.executor)
	return cmd
}

func (h *host) allocnet(args ...string) (string, error) {
	cmd := h.program(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		return stderr.String(), err
	}
	return stdout.String(), nil
}

func (h *host) must(args ...string) string {
	h.Helper()
	out, err := h.allocnet(args...)
	if err != nil {
		h.Fatalf("allocnet %v: %v: %s", args, err, out)
	}
	return out
}

// attach returns the existing attachments.
func (h *host) attach(args ...string) *hook.Allocation {
	h.Helper()
	var a hook.Allocation
	if err := json.Unmarshal([]byte(h.must(append([]string{"attach", "--json", "--primary="}, args...)...)), &a); err != nil {
		h.Fatal(err)
	}
	return &a
}

var dual = []any{map[string]any{"subnet": "10.60.0.0/24"}, map[string]any{"subnet": "fd60::/64"}}

// TestAllocnet attaches, checks and detaches with two networks that use one pool, in process
// and with the plugins.
func TestAllocnet(t *testing.T) {
	for _, executor := range []string{hook.ExecutorAuto, hook.ExecutorPlugins} {
		t.Run(executor, func(t *testing.T) {
			h := &host{pool: newPool(t, map[string]any{"ranges": dual, "reserved": []any{"10.60.0.32/28"}}), conf: t.TempDir(), records: t.TempDir(), executor: executor}
			for _, name := range []string{"one", "two"} {
				plugin := map[string]any{"type": "macvlan", "master": "uplink", "capabilities": map[string]any{"ips": true}}
				sandbox.WriteFile(t, h.conf+"/"+name+".conflist", h.network("1.1.0", name, plugin))
			}
			a := h.attach("a1", "--networks", "one,two")
			if len(a.Attachments) != 2 || len(h.leases()) != 4 {
				t.Fatalf("%d attachments and the leases %v, want two and four", len(a.Attachments), h.leases())
			}
			h.must("check", "a1")
			h.must("detach", "a1", "--interface", a.Attachments[0].Interface)
			if n := len(h.leases()); n != 2 {
				t.Errorf("%d leases after one of two networks was detached, want two", n)
			}
			h.must("detach", "a1")
			h.requireRequested()
			h.requireForcedCleanup()
		})
	}
}

// requireRequested: a request is refused before anything is attached, and a reserved address is
// had.
func (h *host) requireRequested() {
	h.Helper()
	for address, word := range map[string]string{"10.60.0.3": "10.60.0.32/28", "192.0.2.1": "not in a range"} {
		if out, err := h.allocnet("attach", "a2", "--primary=", "--networks", `[{"name": "one", "ips": ["`+address+`"]}]`); err == nil || !strings.Contains(out, word) {
			h.Errorf("%s: %v: %s, want that it is refused and %q", address, err, out, word)
		}
	}
	a := h.attach("a2", "--networks", `[{"name": "one", "ips": ["10.60.0.40"]}]`)
	if got := a.Attachments[0].Addresses; len(got) == 0 || !slices.Contains(got, netip.MustParsePrefix("10.60.0.40/24")) {
		h.Errorf("got %v, want 10.60.0.40", got)
	}
	if out, err := h.allocnet("attach", "a3", "--primary=", "--networks", `[{"name": "two", "ips": ["10.60.0.40"]}]`); err == nil || !strings.Contains(out, "has a lease") {
		h.Errorf("an address that another has: %v: %s", err, out)
	}
	h.must("detach", "a2")
}

// requireForcedCleanup: leases go with a namespace that is gone, and those of attachments that
// nothing records any more, although two networks use the pool.
func (h *host) requireForcedCleanup() {
	h.Helper()
	h.must("attach", "a4", "--primary=", "--networks", "one,two")
	sandbox.Run(h, "ip", "netns", "delete", "a4")
	h.must("gc")
	if left := h.leases(); len(left) > 0 {
		h.Errorf("after gc of an allocation without a namespace: %v", left)
	}
	h.mustAdd(call{id: "a5"})
	if out := h.must("gc", "--dry-run", "--json"); !strings.Contains(out, "a5") {
		h.Errorf("gc does not list the lease of a5: %s", out)
	}
	h.mustRun(call{verb: "DEL", id: "a5"})
}

// TestStoreDoesNotAnswer: an operator is told what attach waits for, and gets the name of the store
// after one attempt. Nothing is left.
func TestStoreDoesNotAnswer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	address := "http://" + silent.Addr().String()
	conf := t.TempDir()
	sandbox.WriteFile(t, conf+"/agent.hcl", "ipam {}\nnomad {\n address = \""+address+"\"\n node_id = \"0b2e7b1c-94c2-4c2a-8a0e-5a4e1d0c9f01\"\n}\n")
	h := &host{pool: newPool(t, map[string]any{"ranges": dual, "configDir": conf}), conf: t.TempDir(), records: t.TempDir()}
	sandbox.WriteFile(t, h.conf+"/net.conflist", h.network("1.1.0", "net", bridge))
	out, err := h.allocnet("attach", "a1", "--primary=", "--networks", "net")
	if err == nil || !strings.Contains(out, address) || !strings.Contains(out, "a1: waiting for the plugins of net\n") || strings.Contains(out, "trying again") {
		t.Errorf("attach: %v: %s\nwant one attempt, what it waits for, and an error that names %s", err, out, address)
	}
	if out := h.must("status", "--json"); strings.Contains(out, "a1") {
		t.Errorf("a1 is on record: %s", out)
	}
}

// TestWithoutProgram: in process no plugin is needed.
func TestWithoutProgram(t *testing.T) {
	h := &host{pool: newPool(t, map[string]any{"ranges": dual}), conf: t.TempDir(), records: t.TempDir(), plugins: t.TempDir()}
	sandbox.WriteFile(t, h.conf+"/net.conflist", h.network("1.1.0", "net", bridge))
	h.attach("a1", "--networks", "net")
	h.must("check", "a1")
	h.must("detach", "a1")
}

// TestSameResult: ADD in process and ADD of the plugins return the same, from pools in the same
// state; each checks and removes what the other made.
func TestSameResult(t *testing.T) {
	keys := map[string]any{"ranges": dual, "routes": []any{map[string]any{"dst": "0.0.0.0/0"}}, "dns": map[string]any{"nameservers": []any{"10.60.0.1"}}, "cooldown": "0s"}
	for _, cniVersion := range []string{"0.3.0", "0.4.0", "1.0.0", "1.1.0"} {
		t.Run(cniVersion, func(t *testing.T) {
			var results []string
			for i := range 2 {
				p := newPool(t, keys)
				p.setInstance("0123456789abcdef0123456789abcdef")
				list, err := cniconf.ParseList([]byte(p.network(cniVersion, "net", bridge)))
				if err != nil {
					t.Fatal(err)
				}
				if err := inprocess.Supports(list, []string{sandbox.PluginDir()}); err != nil {
					t.Fatal(err)
				}
				results = append(results, addWith(t, list, i == 0))
			}
			if diff := cmp.Diff(results[0], results[1]); diff != "" {
				t.Errorf("results (-in process +plugins):\n%s", diff)
			}
		})
	}
}

// addWith attaches with one executor, and checks and detaches with the other.
func addWith(t *testing.T, list *libcni.NetworkConfigList, inProcess bool) string {
	t.Helper()
	ns, err := netns.Create(netns.DefaultDir, "same")
	if err != nil {
		t.Fatal(err)
	}
	defer netns.Remove(ns)
	rt := &libcni.RuntimeConf{ContainerID: "same", NetNS: ns, IfName: "eth0"}
	dir := t.TempDir()
	result, err := cniWith(dir, inProcess).add(t, list, rt)
	if err != nil {
		t.Fatal(err)
	}
	if atLeast(t, list.CNIVersion, "0.4.0") {
		checking := cniWith(dir, !inProcess)
		if err := checking.CheckNetworkList(t.Context(), list, rt); err != nil {
			t.Errorf("CHECK by the other: %v", err)
		}
		if checking.chain != nil && checking.chain.Repair.Found() {
			t.Errorf("CHECK by the other: %+v", checking.chain.Repair)
		}
	}
	other := cniWith(dir, !inProcess)
	if err := other.DelNetworkList(t.Context(), list, rt); err != nil {
		t.Errorf("DEL by the other: %v", err)
	}
	if other.chain != nil {
		plugin.Commit(t.Context(), nil, []*plugin.Changes{other.chain.Changes()})
	}
	return result
}

// executor is libcni with one of the executors.
type executor struct {
	*libcni.CNIConfig
	// chain is nil for the plugins.
	chain *inprocess.Chain
}

func cniWith(cacheDir string, inProcess bool) executor {
	dirs := []string{sandbox.PluginDir()}
	if !inProcess {
		return executor{libcni.NewCNIConfigWithCacheDir(dirs, cacheDir, nil), nil}
	}
	chain := &inprocess.Chain{OwnIPAM: linked.Type(nil), Repair: &remedy.Repair{DryRun: true}}
	return executor{libcni.NewCNIConfigWithCacheDir(dirs, cacheDir, chain), chain}
}

// add returns the result without what the kernel makes up.
func (e executor) add(t *testing.T, list *libcni.NetworkConfigList, rt *libcni.RuntimeConf) (string, error) {
	t.Helper()
	result, err := e.AddNetworkList(t.Context(), list, rt)
	if err != nil {
		return "", err
	}
	data, err := json.MarshalIndent(result, "", " ")
	lines := slices.DeleteFunc(strings.Split(string(data), "\n"), func(line string) bool { return strings.Contains(line, `"mac"`) || strings.Contains(line, `"veth`) })
	return strings.Join(lines, "\n"), err
}

// TestRefusedAlike: errors in process are those of the program.
func TestRefusedAlike(t *testing.T) {
	p := newPool(t, map[string]any{"ranges": []any{map[string]any{"subnet": "10.60.0.0/30"}}})
	p.mustAdd(call{id: "full"})
	list, err := cniconf.ParseList([]byte(p.network("1.0.0", "net", map[string]any{"type": "macvlan", "master": "uplink"})))
	if err != nil {
		t.Fatal(err)
	}
	var errs []string
	for _, inProcess := range []bool{true, false} {
		rt := &libcni.RuntimeConf{ContainerID: "more", NetNS: namespace(t, filepath.Base(t.Name())+map[bool]string{true: "1", false: "2"}[inProcess]), IfName: "eth0"}
		_, err := cniWith(t.TempDir(), inProcess).AddNetworkList(t.Context(), list, rt)
		requireCode(t, err, 11)
		errs = append(errs, err.Error())
	}
	if errs[0] != errs[1] {
		t.Errorf("in process: %s\nthe plugins: %s", errs[0], errs[1])
	}
	p.mustRun(call{verb: "DEL", id: "full"})
}
