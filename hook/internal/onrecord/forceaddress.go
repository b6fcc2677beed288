// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package onrecord

import (
	"encoding/json"
	"strings"

	"github.com/containernetworking/cni/libcni"
)

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
