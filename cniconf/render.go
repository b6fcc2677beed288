// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"strconv"
	"strings"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// Edit are an attachment's changes to a network's configuration. The zero value
// changes nothing.
type Edit struct {
	// MTU replaces the key "mtu" of the plugins that have it. 0: unchanged.
	MTU int
	// DefaultMTU is the "mtu" of the first plugin unless MTU is set. 0: unchanged.
	DefaultMTU int
	// CNIArgs are merged into "args"."cni" of every plugin (CNI conventions,
	// "args in network config").
	CNIArgs map[string]any
	// EgressAddresses are those that packets leave the host with, for the plugins that masquerade them.
	EgressAddresses []netip.Addr
	// PublishAddress is what ports are published on, for the plugin portmap. Nil: the addresses of the host.
	PublishAddress *PublishAddress
	// Marker replaces the top-level key "allocnet".
	Marker json.RawMessage
}

// PublishAddress are addresses of a pool that the host has while it runs an allocation.
type PublishAddress struct {
	Addresses []netip.Addr `json:"addresses"`
	// Interface of the host gets the addresses.
	Interface string `json:"interface"`
	// IPAM configures the pool.
	IPAM json.RawMessage `json:"ipam"`
}

// object keeps values as they are written, so that numbers and unknown keys are
// preserved.
type object = map[string]json.RawMessage

// Render returns the network as a self-contained conflist with the edit applied, the
// same for the same input.
func (n *Network) Render(e Edit) ([]byte, error) {
	var list object
	if err := json.Unmarshal(n.List.Bytes, &list); err != nil {
		return nil, fmt.Errorf("network %q: %w", n.Name, err)
	}
	plugins := make([]object, len(n.List.Plugins))
	withMTU := 0
	mtu := cmp.Or(e.MTU, e.DefaultMTU)
	for i, plugin := range n.List.Plugins {
		if err := json.Unmarshal(plugin.Bytes, &plugins[i]); err != nil {
			return nil, fmt.Errorf("network %q: plugins[%d]: %w", n.Name, i, err)
		}
		if _, ok := plugins[i]["mtu"]; mtu != 0 && (ok || i == 0 && e.DefaultMTU != 0) {
			plugins[i]["mtu"] = json.RawMessage(strconv.Itoa(mtu))
			withMTU++
		}
		if err := e.addAddresses(plugins[i], n.Chain()[i]); err != nil {
			return nil, err
		}
		if err := mergeArgs(plugins[i], e.CNIArgs); err != nil {
			return nil, fmt.Errorf("network %q: plugins[%d]: %w", n.Name, i, err)
		}
	}
	if err := separateBackups(n.List.Plugins, plugins); err != nil {
		return nil, err
	}
	if e.MTU != 0 && withMTU == 0 {
		return nil, errdefs.As(errdefs.Refused, fmt.Errorf("network %q: no plugin has the key \"mtu\": omit the MTU, or add the key to the network", n.Name))
	}
	return assemble(list, plugins, n.List.CNIVersion, e.Marker)
}

// addAddresses gives a plugin its keys egressAddress and publishAddress, which only this program reads, and which no file has.
func (e Edit) addAddresses(to object, p Plugin) (err error) {
	if len(e.EgressAddresses) > 0 && p.Masquerades() {
		to["egressAddress"], err = json.Marshal(e.EgressAddresses)
	}
	if err == nil && e.PublishAddress != nil && p.MapsPorts() {
		to["publishAddress"], err = json.Marshal(e.PublishAddress)
	}
	return err
}

func assemble(list object, plugins []object, cniVersion string, marker json.RawMessage) ([]byte, error) {
	out := map[string]any{}
	for key, value := range list {
		out[key] = value
	}
	delete(out, "cniVersions")
	out["cniVersion"] = cniVersion
	out["plugins"] = plugins
	out["loadOnlyInlinedPlugins"] = true
	delete(out, "allocnet")
	if marker != nil {
		out["allocnet"] = marker
	}
	return json.Marshal(out)
}

func mergeArgs(plugin object, add map[string]any) error {
	if len(add) == 0 {
		return nil
	}
	args, err := members(plugin["args"])
	if err != nil {
		return fmt.Errorf("args: %w", err)
	}
	present, _ := args["cni"].(json.RawMessage)
	cni, err := members(present)
	if err != nil {
		return fmt.Errorf("args.cni: %w", err)
	}
	for key := range add { // plugins ignore the case of keys, and would read one of two
		maps.DeleteFunc(cni, func(present string, _ any) bool { return strings.EqualFold(present, key) })
	}
	maps.Copy(cni, add)
	args["cni"] = cni
	plugin["args"], err = json.Marshal(args)
	return err
}

// members decodes the top level of a JSON object; nil is an empty object.
func members(data json.RawMessage) (map[string]any, error) {
	opened := map[string]any{}
	if data == nil {
		return opened, nil
	}
	var kept object
	if err := json.Unmarshal(data, &kept); err != nil {
		return nil, err
	}
	for key, value := range kept {
		opened[key] = value
	}
	return opened, nil
}
