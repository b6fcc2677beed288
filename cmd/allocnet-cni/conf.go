// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

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
	"github.com/allocnet/allocnet/selection"
)

// conf is the plugin's entry in a conflist.
type conf struct {
	types.PluginConf
	RuntimeConfig runtimeConfig `json:"runtimeConfig"`
	Args          struct {
		CNI map[string]json.RawMessage `json:"cni"`
	} `json:"args"`
	// Primary is the main network: a name of the conf directory, or a selection
	// element. None: Delegates' first, else the plugin stands behind others.
	Primary json.RawMessage `json:"primary"`
	// Delegates are networks that stand inside the conflist. Without Primary the
	// first is the primary; the others are attached to every allocation.
	Delegates []json.RawMessage `json:"delegates"`
	// Networks are attached to every allocation besides those of its job. A
	// list, or the short form.
	Networks json.RawMessage `json:"networks"`
	// ConfDir, PluginDir and StateDir are as in hook.Config. ConfDir and
	// PluginDir may name several, separated by ':'.
	ConfDir   string `json:"confDir"`
	PluginDir string `json:"pluginDir"`
	StateDir  string `json:"stateDir"`
	// DataDir is that of the Nomad client: network-status.json is written into
	// the allocation's shared directory there. Empty: nowhere.
	DataDir string `json:"dataDir"`
	// Result says what the runtime is told: "" or "primary", the primary's
	// addresses alone, or "all".
	Result string `json:"result"`
	// Identity says whose word CNI_ARGS are: "" or "nomad" for Nomad from
	// 1.9.4 on, which lets no job override NOMAD_NAMESPACE and the like, or
	// "unknown" for older ones, where the job could have written them.
	Identity string `json:"identity"`
	// PassArgs are the CNI arguments that go on to the networks' plugins
	// besides Nomad's own.
	PassArgs []string `json:"passArgs"`
	// Timeout is the deadline of one call as a whole, as in "90s"; package hook
	// splits it. Default: 60 s.
	Timeout string `json:"timeout"`
	// LogLevel is trace, debug, info, warn, error or off. Default: warn.
	LogLevel string `json:"logLevel"`
	// LogFile is where log lines are appended. Empty: the runtime's stderr.
	LogFile string `json:"logFile"`
	// Agent has calls carried out by the agent. Nil: the plugin does it all.
	Agent *agentConf `json:"agent"`
	// Valid are the attachments that GC keeps.
	Valid []types.GCAttachment `json:"cni.dev/valid-attachments"`

	timeout   time.Duration
	primary   *selection.Element
	defaults  []selection.Element
	delegates []*cniconf.Network
}

// runtimeConfig is what the runtime passes for the capabilities of the entry.
type runtimeConfig struct {
	PortMappings []selection.PortMapping `json:"portMappings"`
	IPs          []string                `json:"ips"`
	MAC          string                  `json:"mac"`
	Bandwidth    *selection.Bandwidth    `json:"bandwidth"`
	GUID         string                  `json:"infinibandGUID"`
	Networks     json.RawMessage         `json:"networks"`
}

// keys are those of an entry; the first line is CNI's.
var keys = []string{
	"cniVersion", "cniVersions", "name", "type", "capabilities", "runtimeConfig", "args", "prevResult", "ipam", "dns", "disableCheck", "disableGC",
	"primary", "delegates", "networks", "confDir", "pluginDir", "stateDir", "dataDir", "result", "identity", "passArgs", "timeout", "logLevel", "logFile", "agent",
}

// decodeConf reads an entry, unchecked. With an error it has the keys that could
// be read.
func decodeConf(data []byte) (*conf, error) {
	c := &conf{timeout: time.Minute}
	if err := json.Unmarshal(data, c); err != nil {
		return c, refuse(types.ErrDecodingFailure, err.Error())
	}
	return c, nil
}

// readConf reads an entry for a verb. A strict one needs all of it. The others
// work from the record, so that a mistake in the entry is only a warning.
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

// check checks an entry that was decoded from data, and makes of it what the
// verbs need.
func (c *conf) check(data []byte) error {
	var present map[string]json.RawMessage
	if err := json.Unmarshal(data, &present); err != nil {
		return refuse(types.ErrDecodingFailure, err.Error())
	}
	for _, key := range slices.Sorted(maps.Keys(present)) {
		if !slices.Contains(keys, key) && !strings.HasPrefix(key, "cni.dev/") {
			return invalid(fmt.Errorf("%q: unknown key: want %s", key, strings.Join(keys[12:], ", ")))
		}
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

// invalid is an error in the conflist.
func invalid(err error) error {
	return refuse(types.ErrInvalidNetworkConfig, name+" in the conflist: "+err.Error())
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
		return fmt.Errorf("primary: interface %q: the runtime says which", p.Interface)
	case p.Name == c.Name:
		return fmt.Errorf("primary %q: is the conflist itself", p.Name)
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
	if c.Agent != nil && !slices.Contains([]string{"", prefer, require}, c.Agent.Mode) {
		return fmt.Errorf("agent: mode %q: want %s or %s", c.Agent.Mode, prefer, require)
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

// parseNetworks reads a selection that is a JSON value: a string with one of
// the forms, or the list itself. Nothing selects nothing.
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
