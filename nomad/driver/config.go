// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/nomad/driver/proto"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
)

// pluginConfig is the block plugin "allocnet" { config {} } in the configuration of Nomad's agent. Empty
// fields keep the values of the command line.
type pluginConfig struct {
	ConfDir    string   `codec:"conf_dir"`
	PluginDirs []string `codec:"plugin_dirs"`
	StateDir   string   `codec:"state_dir"`
	Executor   string   `codec:"executor"`
	PolicyFile string   `codec:"policy_file"`
}

// apply returns c with the fields that are set in the plugin block.
func (p pluginConfig) apply(c hook.Config) hook.Config {
	if p.ConfDir != "" {
		c.ConfDirs = filepath.SplitList(p.ConfDir)
	}
	c.ConfDirs = cniconf.Dirs(c.ConfDirs)
	c.StateDir = cmp.Or(p.StateDir, c.StateDir)
	c.Executor = cmp.Or(p.Executor, c.Executor)
	c.PolicyFile = cmp.Or(p.PolicyFile, c.PolicyFile)
	if len(p.PluginDirs) > 0 {
		c.PluginDirs = p.PluginDirs
	}
	return c
}

// taskConfig is the config block of a task.
type taskConfig struct {
	Networks map[string]networkConfig `codec:"network"`
}

// networkConfig is a network block. Its label is the name of the network. The fields
// are those of selection.Element.
type networkConfig struct {
	Interface      string   `codec:"interface"`
	IPs            []string `codec:"ips"`
	MAC            string   `codec:"mac"`
	MTU            int      `codec:"mtu"`
	Ports          []string `codec:"ports"`
	DefaultRoute   []string `codec:"default_route"`
	InfinibandGUID string   `codec:"infiniband_guid"`
	// PortMappings are ports of the host that the task chooses, and ranges of them.
	PortMappings []map[string]string `codec:"port_mappings"`
	Bandwidth    *bandwidthConfig    `codec:"bandwidth"`
	// CNIArgs are several maps because Nomad hands a map of a job over as a list of them.
	CNIArgs []map[string]string `codec:"cni_args"`
	// Advertise makes the address on this network the task's address.
	Advertise bool `codec:"advertise"`
}

type bandwidthConfig struct {
	IngressRate  uint64 `codec:"ingress_rate"`
	IngressBurst uint64 `codec:"ingress_burst"`
	EgressRate   uint64 `codec:"egress_rate"`
	EgressBurst  uint64 `codec:"egress_burst"`
}

func decode(data []byte, target any) error {
	if len(data) == 0 {
		return nil
	}
	handle := &codec.MsgpackHandle{}
	handle.RawToString = true
	return codec.NewDecoderBytes(data, handle).Decode(target)
}

// names returns the networks in the order of their attachment, which is by name:
// HCL does not keep the order of labelled blocks.
func (c taskConfig) names() []string { return slices.Sorted(maps.Keys(c.Networks)) }

// elements returns the networks as elements of a selection.
func (c taskConfig) elements() ([]selection.Element, error) {
	if len(c.Networks) == 0 {
		return nil, errors.New(`config: no network: add a block network "NAME" {} to the task's config for each network`)
	}
	var elements []selection.Element
	for _, name := range c.names() {
		e := c.Networks[name].element(name)
		var err error
		if e.PortMappings, err = portMappings(name, c.Networks[name].PortMappings); err != nil {
			return nil, err
		}
		elements = append(elements, e)
	}
	return elements, nil
}

func (n networkConfig) element(name string) selection.Element {
	e := selection.Element{
		Name: name, Interface: n.Interface, IPs: n.IPs, MAC: n.MAC, MTU: n.MTU,
		Ports: n.Ports, DefaultRoute: n.DefaultRoute, InfinibandGUID: n.InfinibandGUID,
	}
	if n.Bandwidth != nil {
		e.Bandwidth = (*selection.Bandwidth)(n.Bandwidth)
	}
	for _, args := range n.CNIArgs {
		for key, value := range args {
			if e.CNIArgs == nil {
				e.CNIArgs = map[string]any{}
			}
			e.CNIArgs[key] = value
		}
	}
	return e
}

// advertised returns the network that has the task's address.
func (c taskConfig) advertised() (string, error) {
	var chosen []string
	for _, name := range c.names() {
		if c.Networks[name].Advertise {
			chosen = append(chosen, name)
		}
	}
	switch len(chosen) {
	case 0:
		return c.names()[0], nil
	case 1:
		return chosen[0], nil
	}
	return "", fmt.Errorf("config: networks %s have advertise = true: a task has one address, so set it in one of them", strings.Join(chosen, ", "))
}

// portsOf tells which labels a group has.
func portsOf(labels []string) string {
	if len(labels) == 0 {
		return "the group has none"
	}
	return "want one of " + strings.Join(labels, ", ")
}

// ports returns the ports of the group that the networks name. Nomad maps the
// others.
func (c taskConfig) ports(group []*proto.PortMapping) ([]portmap.Port, error) {
	var labels []string
	for _, p := range group {
		labels = append(labels, p.GetLabel())
	}
	var ports []portmap.Port
	for _, name := range c.names() {
		for _, label := range c.Networks[name].Ports {
			at := slices.Index(labels, label)
			if at < 0 {
				return nil, fmt.Errorf("config: network %q: ports: %q is not a port of the group: %s", name, label, portsOf(labels))
			}
			p := group[at]
			ports = append(ports, portmap.Port{Label: label, HostPort: int(p.GetValue()), To: int(p.GetTo()), HostIP: p.GetHostIp()})
		}
	}
	return ports, nil
}
