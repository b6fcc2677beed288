// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/utils"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/files"
)

// Multi describes a conflist of allocnet-cni.
type Multi struct {
	// Name is the name of the conflist: a job selects it with the network mode
	// "cni/NAME". It may be the primary network's name; that network is then
	// embedded in the conflist, under the name NAME-primary.
	Name string
	// Primary is the name of the primary network. Required.
	Primary string
	// Networks are attached to every allocation, in one of the forms of package
	// selection. Empty: none.
	Networks string
	// ConfDirs, PluginDir, StateDir and AllocDir become keys of the plugin
	// configuration. Empty: left out.
	ConfDirs                      []string
	PluginDir, StateDir, AllocDir string
	// Executor is as in hook.Config. Empty: left out.
	Executor string
	// Identity is "unknown" if the jobs of this Nomad can forge the identity of their
	// allocations. Empty: it is that of Nomad.
	Identity string
	// Agent delegates calls to the agent. Nil: the plugin executes them itself.
	Agent *MultiAgent
}

// MultiAgent is the agent to which allocnet-cni delegates.
type MultiAgent struct {
	// Socket is the path of the agent's socket. Empty: the default path.
	Socket string `json:"socket,omitempty"`
	// Mode is "require", or "prefer" when the plugin may execute a call itself
	// that the agent does not. Empty: prefer.
	Mode string `json:"mode,omitempty"`
	// JobNetworks has an agent refuse calls that does not read the networks of jobs.
	// Requires the mode "require".
	JobNetworks bool `json:"jobNetworks,omitempty"`
}

// OwnPlugin is the CNI plugin that runs the engine.
const OwnPlugin = "allocnet-cni"

// IsOwn tells whether OwnPlugin makes the network: it is what jobs name as cni/NAME, and attaches other networks.
func (n *Network) IsOwn() bool { return slices.Contains(n.PluginTypes(), OwnPlugin) }

// AllocDir returns the Nomad client's alloc_dir, as a network of OwnPlugin has it. Empty: none has one. The second result is whether there is
// such a network: one without an alloc_dir wants no files.
func (c *Catalog) AllocDir() (dir string, says bool) {
	for _, n := range c.Networks {
		for _, plugin := range n.List.Plugins {
			var own multiPlugin
			if json.Unmarshal(plugin.Bytes, &own) == nil && own.Type == OwnPlugin {
				dir, says = cmp.Or(dir, own.AllocDir), true
			}
		}
	}
	return dir, says
}

// multiVersion is the highest version with which Nomad always calls DEL: with
// 1.1.0 it skips DEL when STATUS fails.
const multiVersion = "1.0.0"

// forwarded are the capabilities whose arguments allocnet-cni forwards to the
// primary network.
var forwarded = []string{"portMappings", "ips", "mac", "bandwidth", "infinibandGUID"}

type multiList struct {
	CNIVersion string        `json:"cniVersion"`
	Name       string        `json:"name"`
	Plugins    []multiPlugin `json:"plugins"`
}

type multiPlugin struct {
	Type         string            `json:"type"`
	Capabilities map[string]bool   `json:"capabilities"`
	Primary      string            `json:"primary,omitempty"`
	Delegates    []json.RawMessage `json:"delegates,omitempty"`
	Networks     string            `json:"networks,omitempty"`
	ConfDir      string            `json:"confDir,omitempty"`
	PluginDir    string            `json:"pluginDir,omitempty"`
	Executor     string            `json:"executor,omitempty"`
	StateDir     string            `json:"stateDir,omitempty"`
	AllocDir     string            `json:"allocDir,omitempty"`
	Identity     string            `json:"identity,omitempty"`
	Agent        *MultiAgent       `json:"agent,omitempty"`
}

// ConfList returns the conflist, the same for the same input. The catalog has the
// primary network; the file that the conflist replaces is not in it (LoadExcept).
func (m Multi) ConfList(c *Catalog) ([]byte, error) {
	if err := checkName(m.Name); err != nil {
		return nil, err
	}
	primary, err := c.Lookup(m.Primary)
	if err != nil {
		return nil, err
	}
	plugin := multiPlugin{
		Type: OwnPlugin, Capabilities: forwardedCapabilities(primary), Primary: m.Primary, Networks: m.Networks,
		ConfDir: strings.Join(m.ConfDirs, ":"), PluginDir: m.PluginDir, Executor: m.Executor, StateDir: m.StateDir, AllocDir: m.AllocDir, Identity: m.Identity, Agent: m.Agent,
	}
	if m.Name == m.Primary {
		embedded, err := primary.renamed(m.Name + "-primary")
		if err != nil {
			return nil, err
		}
		plugin.Primary, plugin.Delegates = "", []json.RawMessage{embedded}
	}
	data, err := json.MarshalIndent(multiList{multiVersion, m.Name, []multiPlugin{plugin}}, "", "  ")
	return append(data, '\n'), err
}

// checkName refuses names that a job of Nomad cannot select.
func checkName(name string) error {
	if utils.ValidateNetworkName(name) != nil || name != strings.ToLower(name) {
		return errdefs.As(errdefs.Refused, fmt.Errorf("name %q: want lowercase letters, digits, '_', '.' and '-', beginning with a letter or digit: Nomad converts network names to lowercase, and would not find this one", name))
	}
	return nil
}

// forwardedCapabilities are those of the network that can be forwarded, and always
// portMappings: without it a job's ports would be ignored silently, with it a
// network that cannot map ports is an error.
func forwardedCapabilities(n *Network) map[string]bool {
	declared := map[string]bool{"portMappings": true}
	for _, capability := range n.Capabilities() {
		if slices.Contains(forwarded, capability) {
			declared[capability] = true
		}
	}
	return declared
}

// renamed returns the network, self-contained, under another name.
func (n *Network) renamed(name string) (json.RawMessage, error) {
	data, err := n.Render(Edit{Marker: n.Options.Data})
	if err != nil {
		return nil, err
	}
	var list object
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	list["name"], err = json.Marshal(name)
	if err != nil {
		return nil, err
	}
	return json.Marshal(list)
}

// Write replaces a file of a CNI configuration directory. The command line and the
// agent may do so at a time.
func Write(path string, data []byte) error {
	return files.Replace(path, data, files.Options{Mode: 0o644, Durable: true, Unlocked: true})
}

// Lock is held from reading a configuration directory until what follows from that is written there: two networks that are created
// at once would choose the same subnet. Users can read the directory, and so can have its lock: it is not waited for without an end.
func Lock(ctx context.Context, dir string) (unlock func(), err error) {
	ctx, stop := context.WithTimeout(ctx, lockTimeout)
	defer stop()
	return files.LockDir(ctx, dir, unix.LOCK_EX)
}

const lockTimeout = 10 * time.Second

// WriteNew makes a file of a CNI configuration directory. Where there is one, the error is fs.ErrExist.
func WriteNew(path string, data []byte) error {
	return files.Replace(path, data, files.Options{Mode: 0o644, Durable: true, Unlocked: true, New: true})
}
