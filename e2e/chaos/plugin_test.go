// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package chaos

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// plugin is an operation of allocnet-cni, called by libcni.
type plugin struct {
	*host
	verb string
	// netns is the namespace of the calls. Empty: that of the runtime.
	netns string
}

// caller executes plugins as libcni does, and sends the processes that it starts.
type caller struct {
	version.PluginDecoder
	started chan *os.Process
}

func (*caller) FindInPath(name string, dirs []string) (string, error) {
	return invoke.FindInPath(name, dirs)
}

func (c *caller) ExecPlugin(_ context.Context, path string, stdin []byte, env []string) ([]byte, error) {
	cmd := exec.Command(path)
	var stdout, stderr bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, bytes.NewReader(stdin), &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.started <- cmd.Process
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("%w: %s %s", err, stdout.String(), stderr.String())
	}
	return stdout.Bytes(), nil
}

// call calls the plugin by libcni. The process is sent when it has started.
func (p *plugin) call(verb string, started chan *os.Process) error {
	p.Helper()
	list, err := libcni.NetworkConfFromBytes(fmt.Appendf(nil, `{"cniVersion": "1.1.0", "name": "multi", "plugins": [{"type": "allocnet-cni",
		"primary": "web", "networks": "storage,peer", "capabilities": {"portMappings": true}, "confDir": %q, "stateDir": %q, "executor": %q, "pluginDir": %q}]}`,
		p.conf, p.state, sandbox.Executor(), p.plugins))
	if err != nil {
		p.Fatal(err)
	}
	cni := libcni.NewCNIConfig([]string{p.plugins}, &caller{started: started})
	container := &libcni.RuntimeConf{
		ContainerID: "k1", NetNS: cmp.Or(p.netns, p.sandbox), IfName: "eth0", Args: [][2]string{{"IgnoreUnknown", "true"}, {"networks", "vlan"}},
		CapabilityArgs: map[string]any{"portMappings": []map[string]any{{"hostPort": 8084, "containerPort": 80, "protocol": "tcp"}}},
	}
	switch verb {
	case "ADD":
		_, err = cni.AddNetworkList(context.Background(), list, container)
	case "DEL":
		err = cni.DelNetworkList(context.Background(), list, container)
	case "GC":
		err = cni.GCNetworkList(context.Background(), list, &libcni.GCArgs{ValidAttachments: []types.GCAttachment{}})
	}
	return err
}

func (p *plugin) must(verb string) {
	p.Helper()
	if err := p.call(verb, make(chan *os.Process, 2)); err != nil {
		p.Fatalf("%s: %v", verb, strings.TrimSpace(err.Error()))
	}
}

func (p *plugin) prepare() []string {
	p.Helper()
	if p.verb == "ADD" {
		return ids[:1]
	}
	if p.verb == "GC" { // only what has lost its namespace is collected
		path, err := netns.Create(netns.DefaultDir, "gone")
		if err != nil {
			p.Fatal(err)
		}
		p.netns = path
		defer func() {
			if err := netns.Remove(path); err != nil {
				p.Error(err)
			}
		}()
	}
	p.must("ADD")
	return nil
}

func (p *plugin) start() run {
	started, done := make(chan *os.Process, 2), make(chan struct{}) // 2: before GC libcni calls DEL
	go func() {
		_ = p.call(p.verb, started) // killed or not
		close(done)
	}()
	return run{<-started, done}
}

func (p *plugin) repair() {
	p.Helper()
	switch p.verb {
	case "GC":
		p.must("GC")
	default:
		p.must("DEL")
	}
}
