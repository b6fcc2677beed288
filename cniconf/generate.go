// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/utils"

	"github.com/allocnet/allocnet/internal/atomicfile"
)

// Multi is what a conflist of allocnet-cni is generated from.
type Multi struct {
	// Name is the conflist's, with which a job asks for it as "cni/NAME". It may
	// be the primary's, which then stands inside, as NAME-primary.
	Name string
	// Primary is the main network. Required.
	Primary *Network
	// Networks are attached to every allocation, in one of the forms of package
	// selection. Empty: none.
	Networks string
	// ConfDirs, PluginDir, StateDir and DataDir become keys of the plugin
	// configuration. Empty: left out.
	ConfDirs                     []string
	PluginDir, StateDir, DataDir string
	// Agent has calls carried out by the agent. Nil: the plugin does it all.
	Agent *MultiAgent
}

// MultiAgent is where allocnet-cni finds the agent.
type MultiAgent struct {
	// Socket is the agent's. Empty: its default.
	Socket string `json:"socket,omitempty"`
	// Mode is "require", or "prefer" when the plugin may do the work itself.
	// Empty: prefer.
	Mode string `json:"mode,omitempty"`
}

// multiVersion is the highest version with which Nomad always calls DEL: with
// 1.1.0 a failing STATUS makes it skip that.
const multiVersion = "1.0.0"

// passable are the capabilities that allocnet-cni passes on to the primary.
var passable = []string{"portMappings", "ips", "mac", "bandwidth", "infinibandGUID"}

type multiList struct {
	CNIVersion string       `json:"cniVersion"`
	Name       string       `json:"name"`
	Plugins    []multiEntry `json:"plugins"`
}

type multiEntry struct {
	Type         string            `json:"type"`
	Capabilities map[string]bool   `json:"capabilities"`
	Primary      string            `json:"primary,omitempty"`
	Delegates    []json.RawMessage `json:"delegates,omitempty"`
	Networks     string            `json:"networks,omitempty"`
	ConfDir      string            `json:"confDir,omitempty"`
	PluginDir    string            `json:"pluginDir,omitempty"`
	StateDir     string            `json:"stateDir,omitempty"`
	DataDir      string            `json:"dataDir,omitempty"`
	Agent        *MultiAgent       `json:"agent,omitempty"`
}

// ConfList returns the conflist, the same for the same input.
func (m Multi) ConfList() ([]byte, error) {
	if err := m.validateName(); err != nil {
		return nil, err
	}
	entry := multiEntry{
		Type: "allocnet-cni", Capabilities: m.capabilities(), Primary: m.Primary.Name, Networks: m.Networks,
		ConfDir: strings.Join(m.ConfDirs, ":"), PluginDir: m.PluginDir, StateDir: m.StateDir, DataDir: m.DataDir, Agent: m.Agent,
	}
	if m.Name == m.Primary.Name {
		inside, err := m.Primary.renamed(m.Name + "-primary")
		if err != nil {
			return nil, err
		}
		entry.Primary, entry.Delegates = "", []json.RawMessage{inside}
	}
	data, err := json.MarshalIndent(multiList{multiVersion, m.Name, []multiEntry{entry}}, "", "  ")
	return append(data, '\n'), err
}

func (m Multi) validateName() error {
	if utils.ValidateNetworkName(m.Name) != nil || m.Name != strings.ToLower(m.Name) {
		return fmt.Errorf("name %q: want small letters, digits, '_', '.' and '-', beginning with a letter or digit: Nomad asks for a network in small letters, and would not find this one", m.Name)
	}
	return nil
}

// capabilities are those of the primary that can be passed on, and always
// portMappings: without it a port would silently not work, with it a network
// that cannot map ports says so.
func (m Multi) capabilities() map[string]bool {
	declared := map[string]bool{"portMappings": true}
	for _, capability := range m.Primary.Capabilities() {
		if slices.Contains(passable, capability) {
			declared[capability] = true
		}
	}
	return declared
}

// renamed returns the network, self-contained, under another name.
func (n *Network) renamed(name string) (json.RawMessage, error) {
	data, err := n.Render(Edit{Marker: n.Options})
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
	return atomicfile.Write(path, data, atomicfile.Options{Mode: 0o644, Durable: true, Unlocked: true})
}
