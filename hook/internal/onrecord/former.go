// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package onrecord

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/state"
)

// IsReattached tells whether DEL and ADD of an attachment are those of a repair, which asks for what
// the attachment had.
func IsReattached(a state.Attachment) bool { return a.FormerResult != nil && a.Phase == state.Attached }

// ListToRun returns the conflist with which an attachment is added and deleted: that on record, in which no bridge has forceAddress. What
// only a repair may ask of an IPAM plugin is in the key "args", where no job writes it: not in CNI_ARGS or "cni".
func ListToRun(recorded *libcni.NetworkConfigList, a state.Attachment) (*libcni.NetworkConfigList, error) {
	list := new(*recorded) // others read the recorded one
	list.Plugins = slices.Clone(recorded.Plugins)
	if err := keepAddresses(list); err != nil || !IsReattached(a) {
		return list, err
	}
	if err := keepPublished(list); err != nil {
		return nil, err
	}
	section, values, err := formerArgs(list, a)
	if err != nil || values == nil {
		return list, err
	}
	for i, p := range list.Plugins {
		if p.Network.IPAM.Type == "" {
			continue
		}
		if list.Plugins[i], err = libcni.InjectConf(p, map[string]any{"args": withArgs(p.Bytes, section, values)}); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// formerArgs returns what a repair asks of the IPAM plugin, and the section of "args" where it reads that:
// of host-local, several addresses; of allocnet-ipam, that DEL keeps the leases. Others that ADD gave are
// given back. There may be nothing to ask.
func formerArgs(list *libcni.NetworkConfigList, a state.Attachment) (section string, values map[string]any, err error) {
	switch ipamOf(list) {
	case "host-local":
		former, err := formerAddresses(a)
		if err != nil || len(former) == 0 {
			return "", nil, err
		}
		return "cni", map[string]any{"ips": bare(former)}, nil
	case "allocnet-ipam":
		if a.Result == nil || RequireFormerAddresses(a) == nil {
			return "allocnet", map[string]any{"keepAddresses": true}, nil
		}
	}
	return "", nil, nil
}

// keepPublished has DEL keep the addresses that the host has for ports, for the ADD that follows: another host that waits for them would
// take them meanwhile, and what runs here would be left without its network.
func keepPublished(list *libcni.NetworkConfigList) (err error) {
	for i, p := range list.Plugins {
		var conf struct {
			PublishAddress json.RawMessage `json:"publishAddress"`
		}
		if json.Unmarshal(p.Bytes, &conf) != nil || conf.PublishAddress == nil {
			continue
		}
		args := withArgs(p.Bytes, "allocnet", map[string]any{"keepAddresses": true})
		if list.Plugins[i], err = libcni.InjectConf(p, map[string]any{"args": args}); err != nil {
			return err
		}
	}
	return nil
}

// withArgs returns the key "args" of a plugin configuration with these values in one of its sections.
func withArgs(config []byte, section string, values map[string]any) map[string]any {
	var conf struct {
		Args map[string]any `json:"args"`
	}
	_ = json.Unmarshal(config, &conf) // it was parsed before
	args := map[string]any{}
	if given, ok := conf.Args[section].(map[string]any); ok {
		maps.Copy(args, given)
	}
	maps.Copy(args, values)
	all := map[string]any{}
	maps.Copy(all, conf.Args)
	all[section] = args
	return all
}

// ipamOf returns the type of the IPAM plugin of a conflist; empty if it has none.
func ipamOf(list *libcni.NetworkConfigList) string {
	for _, p := range list.Plugins {
		if p.Network.IPAM.Type != "" {
			return p.Network.IPAM.Type
		}
	}
	return ""
}

// formerAddresses are those that an attachment had before a repair began to attach it again.
func formerAddresses(a state.Attachment) ([]netip.Prefix, error) {
	result, err := ParseResult(a.FormerResult)
	if err != nil {
		return nil, err
	}
	return Addresses(result), nil
}

// AskForFormer adds to the arguments of an attachment what plugins understand as requests for its
// addresses and its MAC: capabilities, of which libcni passes those that plugins declare, and CNI_ARGS.
// Pools of allocnet-ipam give only reserved addresses to those that request them, and keep the leases. The plugins static and dhcp give the same addresses without a request.
func AskForFormer(rt *libcni.RuntimeConf, list *libcni.NetworkConfigList, a state.Attachment) {
	former, unread := formerAddresses(a)
	seen, unseen := ReadStatus(a)
	if unread != nil || unseen != nil { // ADD fails for the same reason
		return
	}
	extra := [][2]string{{"MAC", seen.MAC}}
	capabilities := map[string]any{}
	if seen.MAC != "" {
		capabilities["mac"] = seen.MAC
	}
	switch ipamOf(list) {
	case "allocnet-ipam", "static", "dhcp":
	default:
		if len(former) > 0 {
			capabilities["ips"] = texts(former)
			extra = append(extra, [2]string{"IP", former[0].Addr().String()})
		}
	}
	maps.Copy(capabilities, a.CapabilityArgs) // a request of the job stays as it is
	rt.CapabilityArgs = capabilities
	rt.Args = slices.Clone(rt.Args)
	for _, arg := range extra {
		given := slices.ContainsFunc(rt.Args, func(other [2]string) bool { return strings.EqualFold(other[0], arg[0]) })
		if arg[1] != "" && !given {
			rt.Args = append(rt.Args, arg)
		}
	}
}

func texts(addresses []netip.Prefix) []string {
	list := make([]string, len(addresses))
	for i, address := range addresses {
		list[i] = address.String()
	}
	return list
}

// bare returns addresses as texts without the lengths of their prefixes.
func bare(addresses []netip.Prefix) []string {
	list := make([]string, len(addresses))
	for i, address := range addresses {
		list[i] = address.Addr().String()
	}
	return list
}

// RequireFormerAddresses requires the addresses that the attachment had: they are in what other hosts
// and programs know of the allocation, and in rules of its other attachments.
func RequireFormerAddresses(a state.Attachment) error {
	want, err := formerAddresses(a)
	if err != nil {
		return err
	}
	result, err := ParseResult(a.Result)
	if err != nil {
		return err
	}
	got := Addresses(result)
	if !slices.Equal(want, got) {
		return fmt.Errorf("the network gives it the addresses %s, and it had %s: start the allocation again to have others", strings.Join(texts(got), ", "), strings.Join(texts(want), ", "))
	}
	return nil
}

// Forced returns the key by which a plugin removes addresses of a bridge to add its gateway, as it is spelled, with
// the value that ends that: JSON of Go ignores case.
func Forced(p *libcni.PluginConfig) map[string]any {
	if p.Network.Type != "bridge" {
		return nil
	}
	var conf map[string]any
	keys := map[string]any{}
	_ = json.Unmarshal(p.Bytes, &conf) // it was parsed before
	for key, value := range conf {
		if value == true && strings.EqualFold(key, "forceAddress") {
			keys[key] = false
		}
	}
	return keys
}

// keepAddresses has bridges keep the addresses that they have: one that is not on record may be an operator's, and one
// that is on record is the gateway of other attachments.
func keepAddresses(list *libcni.NetworkConfigList) error {
	for i, p := range list.Plugins {
		keys := Forced(p)
		if len(keys) == 0 {
			continue
		}
		var err error
		if list.Plugins[i], err = libcni.InjectConf(p, keys); err != nil {
			return err
		}
	}
	return nil
}
