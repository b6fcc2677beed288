// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
)

// forced returns the key by which a plugin removes addresses of a bridge to add its gateway, as it is spelled: JSON of Go
// ignores case.
func forced(p *libcni.PluginConfig) map[string]any {
	var conf map[string]any
	keys := map[string]any{}
	_ = json.Unmarshal(p.Bytes, &conf) // it was parsed before
	for key, value := range conf {
		if p.Network.Type == "bridge" && value == true && strings.EqualFold(key, "forceAddress") {
			keys[key] = false
		}
	}
	return keys
}

// withoutForce returns a network whose bridges keep the addresses that they have: one that is not on record may be an
// operator's, and one that is on record is the gateway of other attachments.
func withoutForce(n *libcni.NetworkConfigList) (*libcni.NetworkConfigList, error) {
	list := *n
	list.Plugins = slices.Clone(n.Plugins)
	for i, p := range n.Plugins {
		keys := forced(p)
		if len(keys) == 0 {
			continue
		}
		var err error
		if list.Plugins[i], err = libcni.InjectConf(p, keys); err != nil {
			return nil, err
		}
	}
	return &list, nil
}

// explainForce says in the error of an ADD why an address is in its way although the network has forceAddress.
func explainForce(n *libcni.NetworkConfigList, err error) error {
	if err == nil || !strings.Contains(err.Error(), "already has an IP address") {
		return err
	}
	for _, p := range n.Plugins {
		if conf, failed := onrecord.DecodePlugin(p); failed == nil && len(forced(p)) > 0 {
			return fmt.Errorf("%w: forceAddress removes none, because an operator or other attachments may need it: if nothing does: ip address del ADDRESS dev %s", err, conf.Link())
		}
	}
	return err
}
