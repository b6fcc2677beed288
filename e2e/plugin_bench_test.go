// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// peers are the programs that BenchmarkPeers compares, as `make build` builds them, with
// their directories.
type peers struct {
	conf, bin, state, socket string
	agent                    int // its process ID
}

func newPeers(b *testing.B) *peers {
	b.Helper()
	p := &peers{conf: sandbox.WriteConf(b), bin: b.TempDir(), state: b.TempDir(), socket: filepath.Join(b.TempDir(), "run", "agent.sock")}
	sandbox.Warm(b, p.conf)
	if err := sandbox.Build(p.bin+"/", "cmd/allocnet", "cmd/allocnet-cni"); err != nil {
		b.Fatal(err)
	}
	return p
}

// startAgent runs the agent until the benchmark ends.
func (p *peers) startAgent(b *testing.B) {
	b.Helper()
	config := b.TempDir()
	sandbox.WriteFile(b, filepath.Join(config, "agent.hcl"), fmt.Sprintf("socket {\n path = %q\n}\n", p.socket))
	cmd := exec.Command(filepath.Join(p.bin, "allocnet"), "agent")
	cmd.Env = append(os.Environ(), "ALLOCNET_CONFIG="+config, "ALLOCNET_CONF_DIR="+p.conf,
		"ALLOCNET_PLUGIN_DIR="+sandbox.PluginDir()+":"+p.bin, "ALLOCNET_STATE_DIR="+p.state)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	p.agent = cmd.Process.Pid
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	for range 1000 {
		if c, err := net.Dial("unix", p.socket); err == nil {
			_ = c.Close()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.Fatal("the agent does not answer")
}

// fixedAddress is the address that a selection of the fifth network of the sandbox needs.
const fixedAddress = "10.92.0.250/16"

// plugin is a subject that a runtime executes through libcni, with additional keys.
func (p *peers) plugin(b *testing.B, name, keys string) subject {
	b.Helper()
	list, err := libcni.NetworkConfFromBytes([]byte(fmt.Sprintf(
		`{"cniVersion": "1.0.0", "name": "multi", "plugins": [{"type": "allocnet-cni", "primary": "web", "capabilities": {"portMappings": true}, "confDir": %q, "stateDir": %q%s}]}`,
		p.conf, p.state, keys)))
	if err != nil {
		b.Fatal(err)
	}
	extra := []map[string]any{{"name": "storage"}, {"name": "peer"}, {"name": "vlan"}, {"name": "fixed", "ips": []string{fixedAddress}}}
	return called(name, []string{p.bin, sandbox.PluginDir()}, func(int) *libcni.NetworkConfigList { return list }, func(k int) [][2]string {
		networks, _ := json.Marshal(extra[:k-1]) // only strings: it cannot fail
		return [][2]string{{"networks", string(networks)}}
	})
}

// multus is Multus with the same networks as delegates, without Kubernetes.
// MULTUS_BIN names the program.
func (p *peers) multus(b *testing.B, path string) subject {
	b.Helper()
	lists := map[int]*libcni.NetworkConfigList{}
	for _, k := range []int{1, 3, 5} {
		list, err := libcni.NetworkConfFromBytes(multusConf(b, p, k, filepath.Base(path)))
		if err != nil {
			b.Fatal(err)
		}
		lists[k] = list
	}
	return called("multus", []string{filepath.Dir(path), sandbox.PluginDir()},
		func(k int) *libcni.NetworkConfigList { return lists[k] }, func(int) [][2]string { return nil })
}

func multusConf(b *testing.B, p *peers, k int, name string) []byte {
	b.Helper()
	files, err := libcni.ConfFiles(p.conf, []string{".conflist", ".conf"})
	if err != nil {
		b.Fatal(err)
	}
	var delegates []json.RawMessage
	for _, file := range files[:k] {
		text, err := os.ReadFile(file)
		if err != nil {
			b.Fatal(err)
		}
		static := fmt.Sprintf(`"type": "static", "addresses": [{"address": %q}]`, fixedAddress) // Multus passes no ips without Kubernetes
		delegates = append(delegates, json.RawMessage(strings.Replace(string(text), `"type": "static"`, static, 1)))
	}
	conf, err := json.Marshal(map[string]any{"cniVersion": "1.0.0", "name": "multus", "plugins": []any{map[string]any{
		"type": name, "name": "multus", "capabilities": map[string]bool{"portMappings": true},
		"cniDir": b.TempDir(), "binDir": sandbox.PluginDir(), "confDir": p.conf, "delegates": delegates,
	}}})
	if err != nil {
		b.Fatal(err)
	}
	return conf
}

// called is a subject that libcni executes with a port to publish.
func called(name string, dirs []string, list func(k int) *libcni.NetworkConfigList, args func(k int) [][2]string) subject {
	cni := libcni.NewCNIConfig(dirs, nil)
	conf := func(k int, id, path string) *libcni.RuntimeConf {
		return &libcni.RuntimeConf{ContainerID: id, NetNS: path, IfName: "eth0", Args: args(k),
			CapabilityArgs: map[string]any{"portMappings": []map[string]any{{"hostPort": 4000, "containerPort": 80, "protocol": "tcp"}}}}
	}
	return subject{
		name: name,
		add: func(k int, id, path string) error {
			_, err := cni.AddNetworkList(context.Background(), list(k), conf(k, id, path))
			return err
		},
		del: func(k int, id, path string) error {
			return cni.DelNetworkList(context.Background(), list(k), conf(k, id, path))
		},
	}
}

// BenchmarkPeers compares allocnet-cni, with and without the agent, with libcni calling
// the same networks one after the other, as Multus does, with all calls at once, which is
// the lower bound, and with Multus if it is installed. The figures are medians, in turn
// within each iteration.
func BenchmarkPeers(b *testing.B) {
	p := newPeers(b)
	p.startAgent(b)
	plain := sandbox.NewPlain(b, p.conf)
	log := filepath.Join(b.TempDir(), "calls")
	own := p.plugin(b, "plugin", fmt.Sprintf(`, "logFile": %q, "logLevel": "trace"`, log))
	own.log = log
	subjects := []subject{
		{name: "sequential", add: plain.AddSequential, del: plain.DelSequential},
		{name: "parallel", add: plain.AddParallel, del: plain.DelParallel},
		own,
		p.plugin(b, "by-agent", fmt.Sprintf(`, "agent": {"socket": %q, "mode": "require"}`, p.socket)),
	}
	if path := os.Getenv("MULTUS_BIN"); path != "" {
		subjects = append(subjects, p.multus(b, path))
	}
	for _, k := range []int{1, 3, 5} {
		b.Run(fmt.Sprintf("k=%d", k), func(b *testing.B) {
			adds, dels := compare(b, subjects, k)
			peer := 0
			if len(subjects) > 4 {
				peer = 4
			}
			b.ReportMetric(adds[2]/adds[peer], "plugin/"+subjects[peer].name+"-add")
			b.ReportMetric(dels[2]/dels[peer], "plugin/"+subjects[peer].name+"-del")
		})
	}
}

// BenchmarkAtOnce sets up many allocations of three networks at the same time, and tears
// them down at the same time, with the plugin and with plain loops.
func BenchmarkAtOnce(b *testing.B) {
	p := newPeers(b)
	plain := sandbox.NewPlain(b, p.conf)
	for _, n := range []int{16, 64} {
		b.Run(fmt.Sprintf("allocations=%d", n), func(b *testing.B) {
			subjects := []subject{{name: "parallel", add: plain.AddParallel, del: plain.DelParallel}, p.plugin(b, "plugin", "")}
			var adds, dels [2][]float64
			for range 3 {
				for i, s := range subjects {
					add, del := atOnce(b, s, n)
					adds[i], dels[i] = append(adds[i], add), append(dels[i], del)
				}
			}
			for b.Loop() { // measured above: one iteration is many allocations
			}
			for i, s := range subjects {
				b.ReportMetric(median(adds[i])/float64(n), s.name+"-add-ms/allocation")
				b.ReportMetric(median(dels[i])/float64(n), s.name+"-del-ms/allocation")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func atOnce(b *testing.B, s subject, n int) (add, del float64) {
	b.Helper()
	paths := make([]string, n)
	for i := range paths {
		path, err := netns.Create(netns.DefaultDir, fmt.Sprintf("once-%d", i))
		if err != nil {
			b.Fatal(err)
		}
		defer netns.Remove(path)
		paths[i] = path
	}
	all := func(call func(k int, id, path string) error) float64 {
		begun := time.Now()
		var group sync.WaitGroup
		for i, path := range paths {
			group.Go(func() {
				// The first allocation makes the shared chains: the plugins sometimes
				// fail if many come first at once.
				for try := 0; ; try++ {
					err := call(3, fmt.Sprintf("once-%d", i), path)
					if err == nil || try == 3 {
						if err != nil {
							b.Error(err)
						}
						return
					}
				}
			})
		}
		group.Wait()
		return ms(time.Since(begun))
	}
	return all(s.add), all(s.del)
}

// BenchmarkFootprint measures the sizes of the programs, the memory of an idle agent, and
// the time that the plugin takes for VERSION. It also measures Multus, if it is
// installed.
func BenchmarkFootprint(b *testing.B) {
	p := newPeers(b)
	p.startAgent(b)
	time.Sleep(2 * time.Second) // the agent's first round
	programs := []string{filepath.Join(p.bin, "allocnet"), filepath.Join(p.bin, "allocnet-cni")}
	if path := os.Getenv("MULTUS_BIN"); path != "" {
		programs = append(programs, path)
	}
	answers := make([][]float64, len(programs))
	for b.Loop() {
		for i, path := range programs[1:] {
			answers[i] = append(answers[i], answer(b, path))
		}
	}
	for i, path := range programs {
		info, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(info.Size())/1e6, filepath.Base(path)+"-MB")
		if i > 0 {
			b.ReportMetric(median(answers[i-1]), filepath.Base(path)+"-version-ms")
		}
	}
	b.ReportMetric(resident(b, p.agent), "agent-idle-MiB")
	b.ReportMetric(0, "ns/op")
}

// answer returns how many milliseconds a plugin takes for VERSION.
func answer(b *testing.B, path string) float64 {
	b.Helper()
	begun := time.Now()
	cmd := exec.Command(path)
	cmd.Env = []string{"CNI_COMMAND=VERSION"}
	cmd.Stdin = strings.NewReader(`{"cniVersion": "1.0.0"}`)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return ms(time.Since(begun))
}

func resident(b *testing.B, pid int) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return float64(kib) / 1024
}
