// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadclient

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/allocnet/allocnet/nomad"
)

// arguments returns CNI_ARGS of ADD and CHECK. DEL has none in any version (v2.0.5
// networking_cni.go:598). go-cni writes them in the random order of a map.
func (a *Allocation) arguments(version nomad.Version) map[string]string {
	args := map[string]string{}
	if !version.Has(ignoreUnknown) {
		return args // v1.6.10 networking_cni.go:105
	}
	args["IgnoreUnknown"] = "true"
	for _, network := range a.Group.Networks { // all blocks: v2.0.5 networking_cni.go:111-120
		for key, value := range network.Args {
			args[key] = a.interpolate(value) // values alone, and since 1.8.2
		}
	}
	if version.Has(nomad.Identity) {
		maps.Copy(args, a.identity())
	}
	if a.Group.TransparentProxy {
		args["CONSUL_IPTABLES_CONFIG"] = a.redirection()
	}
	return args
}

// identity returns the arguments that no job can override (v1.9.4 networking_cni.go:122-140). One
// whose value has a ';' is left out.
func (a *Allocation) identity() map[string]string {
	identity := map[string]string{}
	for _, key := range []string{"NOMAD_REGION", "NOMAD_NAMESPACE", "NOMAD_JOB_ID", "NOMAD_GROUP_NAME", "NOMAD_ALLOC_ID"} {
		if value := a.variables()[key]; !strings.Contains(value, ";") {
			identity[key] = value
		}
	}
	return identity
}

// redirection returns the rules that the plugin consul-cni makes for a transparent proxy (v1.8.0
// networking_cni.go:158-184).
func (a *Allocation) redirection() string {
	text, err := json.Marshal(map[string]any{
		"ConsulDNSIP": "", "ConsulDNSPort": 0, "ProxyUserID": "101", "ProxyInboundPort": 20000, "ProxyOutboundPort": 15001,
		"ExcludeInboundPorts": []string{"20000"}, "ExcludeOutboundPorts": nil, "ExcludeOutboundCIDRs": nil, "ExcludeUIDs": []string{"101"},
		"NetNS": a.path, "IptablesProvider": nil,
	})
	if err != nil {
		panic(err) // numbers and texts
	}
	return string(text)
}
