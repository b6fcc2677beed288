// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package onrecord

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/sysctl"
	"github.com/allocnet/allocnet/state"
)

// Several plugins tuning of a chain may set one property of the interface, and those of several attachments one parameter of the
// namespace: the last one counts, as for the kernel. Attachments are in the order of their Index.

// Parameter is one of the namespace that an attachment sets, by its path.
type Parameter struct{ Path, Value string }

// sets tells whether one of the parameters sets another, too.
func sets(parameters []Parameter, path string) bool {
	return slices.ContainsFunc(parameters, func(p Parameter) bool { return sysctl.Sets(p.Path, path) })
}

// Parameters returns those that a network sets for an interface, in order. Plugins report mistakes.
func Parameters(chain []cniconf.Plugin, iface string) (all []Parameter) {
	for _, p := range chain {
		if p.Type == "tuning" {
			all = append(all, parametersOf(p, iface)...)
		}
	}
	return all
}

// parametersOf returns those of one plugin.
func parametersOf(p cniconf.Plugin, iface string) (all []Parameter) {
	if p.Sysctl == nil {
		return nil
	}
	values := maps.Clone(p.Sysctl)
	maps.Copy(values, p.Args.CNI.Sysctl)
	for _, key := range sysctl.InOrder(values) {
		if path, err := sysctl.Path(key, iface); err == nil {
			all = append(all, Parameter{path, values[key]})
		}
	}
	return all
}

// parameters returns those of an attachment.
func parameters(a state.Attachment) []Parameter {
	if !bytes.Contains(a.ConfList, []byte(`"sysctl"`)) { // which saves decoding it
		return nil
	}
	list, err := List(a)
	if err != nil { // it is told where the attachment is looked at
		return nil
	}
	return Parameters(cniconf.Chain(list), a.Interface)
}

// inOrder returns those of the attachments that are complete, in order.
func inOrder(attachments []state.Attachment) (all []Parameter) {
	complete := slices.DeleteFunc(slices.Clone(attachments), func(a state.Attachment) bool { return !IsComplete(a) })
	slices.SortStableFunc(complete, func(a, b state.Attachment) int { return cmp.Compare(a.Index, b.Index) })
	for _, a := range complete {
		all = append(all, parameters(a)...)
	}
	return all
}

// Later returns the attachments after one.
func Later(a state.Attachment, attachments []state.Attachment) []state.Attachment {
	return slices.DeleteFunc(slices.Clone(attachments), func(other state.Attachment) bool { return other.Index <= a.Index })
}

// Overlaid returns the parameters of attachments which those of others have set, too, in the order in which they have to be set if
// these do not count any more.
func Overlaid(attachments, others []state.Attachment) []Parameter {
	var overlay []Parameter
	for _, a := range others {
		overlay = append(overlay, parameters(a)...)
	}
	if len(overlay) == 0 {
		return nil
	}
	return slices.DeleteFunc(inOrder(attachments), func(p Parameter) bool { return !sets(overlay, p.Path) })
}

// properties are the keys of what tuning sets of an interface, each with the value that sets nothing.
var properties = map[string]any{"mac": "", "mtu": 0., "allmulti": nil, "txQLen": nil}

// ListToCheck returns the conflist with which an attachment is checked: that on record, without what a plugin after it sets, or one of
// a later attachment of the allocation. The kernel does not have that any more.
func ListToCheck(list *libcni.NetworkConfigList, a state.Attachment, all []state.Attachment) (*libcni.NetworkConfigList, error) {
	isTuning := func(p *libcni.PluginConfig) bool { return p.Network.Type == "tuning" }
	if !slices.ContainsFunc(list.Plugins, isTuning) {
		return list, nil
	}
	later := overlay{parameters: inOrder(Later(a, all))}
	checked, chain := new(*list), cniconf.Chain(list)
	checked.Plugins = slices.Clone(list.Plugins)
	for i, p := range slices.Backward(list.Plugins) {
		if !isTuning(p) {
			continue
		}
		var err error
		if checked.Plugins[i], err = later.over(p, chain[i], a); err != nil {
			return nil, err
		}
	}
	return checked, nil
}

// overlay is what the plugins after one set, and the attachments after its own.
type overlay struct {
	parameters []Parameter
	properties []string
}

// over returns the configuration of a plugin without what is set after it, and adds what that sets.
func (o *overlay) over(p *libcni.PluginConfig, decoded cniconf.Plugin, a state.Attachment) (*libcni.PluginConfig, error) {
	var conf map[string]any
	if err := json.Unmarshal(p.Bytes, &conf); err != nil {
		return nil, err
	}
	args := object(conf, "args", "cni")
	var own []string
	for key, nothing := range properties {
		value := conf[key]
		if requested := a.CapabilityArgs[key]; key == "mac" && requested != nil && object(conf, "capabilities")[key] == true {
			value = requested
		}
		if args[key] != nil {
			value = args[key]
		}
		if value != nil && value != nothing {
			own = append(own, key)
		}
	}
	for _, section := range []map[string]any{conf, args} {
		maps.DeleteFunc(section, func(key string, _ any) bool { return slices.Contains(o.properties, key) })
		maps.DeleteFunc(object(section, "sysctl"), func(key string, _ any) bool {
			path, err := sysctl.Path(key, a.Interface)
			return err == nil && sets(o.parameters, path)
		})
	}
	if slices.Contains(o.properties, "mac") {
		delete(object(conf, "capabilities"), "mac")
	}
	o.parameters, o.properties = append(o.parameters, parametersOf(decoded, a.Interface)...), append(o.properties, own...)
	encoded, err := json.Marshal(conf)
	if err != nil {
		return nil, err
	}
	return libcni.NetworkPluginConfFromBytes(encoded)
}

// object returns the object under keys; an empty one if there is none.
func object(in map[string]any, keys ...string) map[string]any {
	for _, key := range keys {
		in, _ = in[key].(map[string]any)
	}
	return in
}
