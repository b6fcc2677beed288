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
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/policy"
)

// peers are the programs that BenchmarkPeers compares, as `make build` builds them, with
// their directories.
type peers struct {
	conf, bin, state, socket string
	agent                    int // its process ID
}

// newPeers builds the programs, and attaches once to each network of a configuration directory.
func newPeers(b *testing.B, conf string) *peers {
	b.Helper()
	p := &peers{conf: conf, bin: b.TempDir(), state: b.TempDir(), socket: filepath.Join(b.TempDir(), "run", "agent.sock")}
	sandbox.Warm(b, p.conf)
	if err := sandbox.Install(p.bin, "allocnet", "allocnet-cni"); err != nil {
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

// plugin is a subject that a runtime executes through libcni, with additional keys.
func (p *peers) plugin(b *testing.B, name, keys string) subject {
	b.Helper()
	list, err := libcni.NetworkConfFromBytes([]byte(fmt.Sprintf(
		`{"cniVersion": "1.0.0", "name": "multi", "plugins": [{"type": "allocnet-cni", "primary": "web", "capabilities": {"portMappings": true}, "confDir": %q, "stateDir": %q%s}]}`,
		p.conf, p.state, keys)))
	if err != nil {
		b.Fatal(err)
	}
	return called(name, []string{p.bin, sandbox.PluginDir()}, func(int) *libcni.NetworkConfigList { return list }, func(k int) [][2]string {
		return [][2]string{{"networks", strings.Join(extraNetworks[:k-1], ",")}}
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
		delegates = append(delegates, text)
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
		name: name, forked: true,
		add: func(k int, id, path string) error {
			_, err := cni.AddNetworkList(context.Background(), list(k), conf(k, id, path))
			return err
		},
		del: func(k int, id, path string) error {
			return cni.DelNetworkList(context.Background(), list(k), conf(k, id, path))
		},
	}
}

// BenchmarkPeers compares allocnet-cni, which executes the networks itself, with plugins
// executed by allocnet-cni, by the agent of this host, and by libcni, one network after the
// other and all at once; with Multus and netavark, where they are installed. The figures are
// medians, in turn within each iteration.
func BenchmarkPeers(b *testing.B) {
	for _, backend := range []string{"iptables", "nftables"} {
		b.Run(backend, func(b *testing.B) {
			p := newPeers(b, benchConf(b, backend, policy.IPv6LinkLocal))
			p.startAgent(b)
			subjects := p.subjects(b, backend)
			for _, k := range []int{1, 3, 5} {
				b.Run(fmt.Sprintf("k=%d", k), func(b *testing.B) {
					adds, dels := compare(b, subjects, k)
					for i, s := range subjects[1:] {
						b.ReportMetric(adds[0]/adds[i+1], "add/"+s.name)
						b.ReportMetric(dels[0]/dels[i+1], "del/"+s.name)
					}
					for i, s := range subjects[2:] {
						b.ReportMetric(adds[1]/adds[i+2], "by-agent-add/"+s.name)
						b.ReportMetric(dels[1]/dels[i+2], "by-agent-del/"+s.name)
					}
				})
			}
		})
	}
}

// subjects are those of BenchmarkPeers, allocnet-cni as it is by default first.
func (p *peers) subjects(b *testing.B, backend string) []subject {
	b.Helper()
	logged := func(s func(b *testing.B, keys string) subject) subject {
		log := filepath.Join(b.TempDir(), "calls")
		logging := s(b, fmt.Sprintf(`, "logFile": %q, "logLevel": "debug"`, log))
		logging.log = log
		return logging
	}
	plain := sandbox.NewPlain(b, p.conf)
	subjects := []subject{
		logged(p.own), logged(p.byAgent), p.plugin(b, "plugins", `, "executor": "plugins"`),
		{name: "sequential", add: plain.AddSequential, del: plain.DelSequential, forked: true},
		{name: "parallel", add: plain.AddParallel, del: plain.DelParallel, forked: true},
	}
	if path := os.Getenv("MULTUS_BIN"); path != "" {
		subjects = append(subjects, p.multus(b, path))
	}
	if path := os.Getenv("NETAVARK_BIN"); path != "" && (backend == "iptables" || netavarkHasNFTables(b, path)) {
		subjects = append(subjects, netavark(b, path, backend))
	}
	return subjects
}

// own is allocnet-cni without an agent.
func (p *peers) own(b *testing.B, keys string) subject {
	b.Helper()
	return p.plugin(b, "allocnet", keys)
}

// byAgent is allocnet-cni with the agent.
func (p *peers) byAgent(b *testing.B, keys string) subject {
	b.Helper()
	s := p.plugin(b, "by-agent", fmt.Sprintf(`, "agent": {"socket": %q, "mode": "require"}`, p.socket)+keys)
	s.agent = p.agent
	return s
}

// BenchmarkFootprint measures the sizes of the programs, the memory of an idle agent, and
// the time that the plugin takes for VERSION. It also measures Multus, if it is
// installed.
func BenchmarkFootprint(b *testing.B) {
	p := newPeers(b, benchConf(b, "iptables", policy.IPv6LinkLocal))
	p.startAgent(b)
	time.Sleep(2 * time.Second) // the agent's first round
	programs := []string{filepath.Join(p.bin, "allocnet"), filepath.Join(p.bin, "allocnet-cni"), filepath.Join(p.bin, "allocnet-cni-engine")}
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
