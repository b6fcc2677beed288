// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"
)

// makers are the types of plugins whose interface ends with the attachment. That of others may be a device of the host.
var makers = []string{"bridge", "ptp", "macvlan", "ipvlan", "vlan", "tap", "dummy", "loopback"}

// separateBackups gives each plugin tuning of a device of the host a directory of its own for what it has found there. With one file for
// all, the second would overwrite what the first has found, and DEL could not give it back.
func separateBackups(chain []*libcni.PluginConfig, plugins []object) error {
	if slices.Contains(makers, chain[0].Network.Type) {
		return nil
	}
	taken := map[string]bool{}
	for i, p := range chain {
		if p.Network.Type != "tuning" {
			continue
		}
		configured := struct{ DataDir string }{}
		if json.Unmarshal(p.Bytes, &configured) != nil {
			continue // the plugin reports the mistake
		}
		first := filepath.Clean(cmp.Or(configured.DataDir, "/run/cni/tuning"))
		dir := first
		for number := 2; taken[dir]; number++ {
			dir = fmt.Sprintf("%s-%d", first, number)
		}
		taken[dir] = true
		if dir == first {
			continue
		}
		encoded, err := json.Marshal(dir)
		if err != nil {
			return err
		}
		maps.DeleteFunc(plugins[i], func(key string, _ json.RawMessage) bool { return strings.EqualFold(key, "dataDir") })
		plugins[i]["dataDir"] = encoded
	}
	return nil
}
