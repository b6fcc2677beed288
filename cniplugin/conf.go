// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"
	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/cniplugin/shim"
	"github.com/allocnet/allocnet/internal/strictjson"
	"github.com/allocnet/allocnet/selection"
)

// conf is the plugin configuration of allocnet-cni in a conflist.
type conf struct {
	types.PluginConf
	RuntimeConfig runtimeConfig `json:"runtimeConfig"`
	Args          struct {
		CNI map[string]json.RawMessage `json:"cni"`
	} `json:"args"`
	// Primary is the main network: the name of a network, or a selection element.
	// Empty: the first of Delegates. Without both, the plugin is chained after
	// others and adds networks.
	Primary json.RawMessage `json:"primary"`
	// Delegates are network configurations inside the conflist. Without Primary
	// the first is the primary. The others are attached to every allocation.
	Delegates []json.RawMessage `json:"delegates"`
	// Networks are attached to every allocation in addition to those of its job.
	// A list, or the short form.
	Networks json.RawMessage `json:"networks"`
	// ConfDir, PluginDir and StateDir are as in hook.Config. ConfDir and
	// PluginDir may list several, separated by ':'.
	ConfDir   string `json:"confDir"`
	PluginDir string `json:"pluginDir"`
	// Executor is as in hook.Config.
	Executor string `json:"executor"`
	StateDir string `json:"stateDir"`
	// AllocDir is the Nomad client's alloc_dir: network-status.json and network.env
	// are written to the allocation's shared directory in it. Empty: they are not
	// written.
	AllocDir string `json:"allocDir"`
	// Result selects the attachments in the result of ADD: "primary" or "all".
	// Empty: "primary".
	Result string `json:"result"`
	// Identity is the source of NOMAD_NAMESPACE and the like in CNI_ARGS:
	// "nomad" for Nomad from 1.9.4 on, which lets no job override them, or
	// "unknown" for older versions, where a job can set them. Empty: "nomad".
	Identity string `json:"identity"`
	// PassArgs are keys of CNI_ARGS that are forwarded to the networks' plugins
	// in addition to Nomad's own.
	PassArgs []string `json:"passArgs"`
	// Timeout is the deadline of a whole call, as in "90s". Default: 60 s.
	Timeout string `json:"timeout"`
	// LogLevel is trace, debug, info, warn, error or off. Default: warn.
	LogLevel string `json:"logLevel"`
	// LogFile is the file that log lines are appended to. Empty: stderr.
	LogFile string `json:"logFile"`
	// Agent has calls delegated to the agent. Nil: the plugin handles all calls.
	Agent *agentConf `json:"agent"`
	// Valid are the attachments that GC must keep.
	Valid []types.GCAttachment `json:"cni.dev/valid-attachments"`

	timeout   time.Duration
	primary   *selection.Element
	defaults  []selection.Element
	delegates []*cniconf.Network
}

type runtimeConfig struct {
	PortMappings []assignedPort       `json:"portMappings"`
	IPs          []string             `json:"ips"`
	MAC          string               `json:"mac"`
	Bandwidth    *selection.Bandwidth `json:"bandwidth"`
	GUID         string               `json:"infinibandGUID"`
	Networks     json.RawMessage      `json:"networks"`
}

// assignedPort is a port that a runtime assigned: unlike a chosen one it is no range.
type assignedPort struct {
	HostPort      int    `json:"hostPort"`
	ContainerPort int    `json:"containerPort"`
	Protocol      string `json:"protocol"`
	HostIP        string `json:"hostIP"`
}

// cniKeys are the keys of a plugin configuration that the CNI specification defines.
var cniKeys = []string{
	"cniVersion", "cniVersions", "name", "type", "capabilities", "runtimeConfig", "args", "prevResult", "ipam", "dns", "disableCheck", "disableGC",
}

// ownKeys are the keys of a plugin configuration that allocnet-cni defines.
var ownKeys = []string{
	"primary", "delegates", "networks", "confDir", "pluginDir", "executor", "stateDir", "allocDir", "result", "identity", "passArgs", "timeout", "logLevel", "logFile", "agent",
}

// decodeConf decodes a plugin configuration without checking it. With an error, the
// fields that could be decoded are set.
func decodeConf(data []byte) (*conf, error) {
	c := &conf{timeout: time.Minute}
	if err := json.Unmarshal(data, c); err != nil {
		return c, refuse(types.ErrDecodingFailure, strictjson.Text{Path: "stdin", Line: 1, Data: data}.Located(err).Error())
	}
	return c, nil
}

// readConf reads a plugin configuration. If strict, a mistake is an error. Otherwise
// it is a warning, for verbs that work from the record.
func readConf(data []byte, strict bool) (c *conf, warning, err error) {
	c, err = decodeConf(data)
	if err == nil && strict {
		err = c.check(data)
	}
	if strict {
		return c, nil, err
	}
	return c, errors.Join(err, c.parseTimeout()), nil
}

// check checks a plugin configuration that was decoded from data, and sets the
// fields that the verbs need.
func (c *conf) check(data []byte) error {
	var present map[string]json.RawMessage
	if err := json.Unmarshal(data, &present); err != nil {
		return refuse(types.ErrDecodingFailure, err.Error())
	}
	for _, key := range slices.Sorted(maps.Keys(present)) {
		if !slices.Contains(cniKeys, key) && !slices.Contains(ownKeys, key) && !strings.HasPrefix(key, "cni.dev/") {
			return invalid(fmt.Errorf("%q: unknown key: want %s", key, strings.Join(ownKeys, ", ")))
		}
	}
	twice, err := strictjson.Text{Path: "the conflist", Data: data}.Check(strictjson.Form{
		Of: Name, Into: c, Skip: []string{"delegates", "ipam", "prevResult"}, Ignore: func(string) bool { return true },
	})
	if err != nil {
		return refuse(types.ErrDecodingFailure, err.Error())
	}
	if len(twice) > 0 {
		return invalid(fmt.Errorf("%s: the key %q is there twice, maybe in another case: remove one of them", twice[0].Of, twice[0].Key))
	}
	for _, parse := range []func() error{c.parseDelegates, c.parsePrimary, c.parseRest} {
		if err := parse(); err != nil {
			return invalid(err)
		}
	}
	if err := version.ParsePrevResult(&c.PluginConf); err != nil {
		return refuse(types.ErrDecodingFailure, err.Error())
	}
	return nil
}

func invalid(err error) error {
	return refuse(types.ErrInvalidNetworkConfig, Name+" in the conflist: "+err.Error())
}

func (c *conf) parseDelegates() error {
	for i, data := range c.Delegates {
		position := fmt.Sprintf("delegates[%d]", i)
		n, err := cniconf.ParseNetwork(position, data)
		if err != nil {
			return err
		}
		if n.Name == c.Name {
			return fmt.Errorf("%s: has the name of the conflist, %q: give it another", position, n.Name)
		}
		c.delegates = append(c.delegates, n)
		if i == 0 && c.Primary == nil {
			c.primary = &selection.Element{Name: n.Name}
			continue
		}
		c.defaults = append(c.defaults, selection.Element{Name: n.Name})
	}
	return nil
}

func (c *conf) parsePrimary() error {
	elements, err := parseNetworks(c.Primary)
	if err != nil {
		return fmt.Errorf("primary: %w", err)
	}
	if len(elements) == 0 {
		return nil
	}
	p := elements[0]
	switch {
	case len(elements) > 1:
		return fmt.Errorf("primary: has %d networks, want one", len(elements))
	case p.Interface != "":
		return fmt.Errorf("primary: interface %q: remove it, the runtime sets the interface name", p.Interface)
	case p.Name == c.Name:
		return fmt.Errorf("primary %q: is the conflist itself: want another network", p.Name)
	}
	c.primary = &p
	c.defaults = slices.DeleteFunc(c.defaults, func(e selection.Element) bool { return e.Name == p.Name })
	return nil
}

func (c *conf) parseRest() error {
	networks, err := parseNetworks(c.Networks)
	if err != nil {
		return err
	}
	c.defaults = append(c.defaults, networks...)
	if !slices.Contains([]string{"", "primary", "all"}, c.Result) {
		return fmt.Errorf("result %q: want primary or all", c.Result)
	}
	if !slices.Contains([]string{"", "nomad", "unknown"}, c.Identity) {
		return fmt.Errorf("identity %q: want nomad or unknown", c.Identity)
	}
	if c.LogLevel != "" && hclog.LevelFromString(c.LogLevel) == hclog.NoLevel {
		return fmt.Errorf("logLevel %q: want trace, debug, info, warn, error or off", c.LogLevel)
	}
	if c.Agent != nil && !slices.Contains([]string{"", prefer, shim.Require}, c.Agent.Mode) {
		return fmt.Errorf("agent: mode %q: want %s or %s", c.Agent.Mode, prefer, shim.Require)
	}
	if c.Agent != nil && c.Agent.JobNetworks && c.Agent.Mode != shim.Require {
		return fmt.Errorf("agent: mode %q: want %s with jobNetworks: the plugin itself does not read the networks of a job", c.Agent.Mode, shim.Require)
	}
	return c.parseTimeout()
}

func (c *conf) parseTimeout() error {
	if c.Timeout == "" {
		return nil
	}
	limit, err := time.ParseDuration(c.Timeout)
	if err != nil || limit <= 0 {
		return fmt.Errorf("timeout %q: want a time, as in 90s", c.Timeout)
	}
	c.timeout = limit
	return nil
}

// parseNetworks reads a selection from a JSON value: a string in either form of
// package selection, or the list itself. An empty value selects no network.
func parseNetworks(value json.RawMessage) ([]selection.Element, error) {
	text := string(bytes.TrimSpace(value))
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(value, &text); err != nil {
			return nil, err
		}
	} else if text != "" && !strings.ContainsAny(text[:1], "[{") {
		return nil, fmt.Errorf("%s: want a string or a list of networks", text)
	}
	return selection.Parse(text)
}
