// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin

import (
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/selection"
)

func TestConf(t *testing.T) {
	c := good(t, `"delegates": [{"cniVersion": "1.0.0", "name": "main", "type": "bridge"}, {"cniVersion": "1.0.0", "name": "side", "plugins": [{"type": "bridge"}]}], "networks": "storage", "timeout": "5s"`)
	if c.primary.Name != "main" || c.timeout != 5*time.Second || len(c.delegates) != 2 {
		t.Errorf("got %+v", c)
	}
	if diff := cmp.Diff([]selection.Element{{Name: "side"}, {Name: "storage"}}, c.defaults); diff != "" {
		t.Error(diff)
	}
	c = good(t, `"primary": {"name": "web", "mtu": 1400}, "networks": [{"name": "storage"}]`)
	if c.primary.MTU != 1400 || c.timeout != time.Minute || len(c.defaults) != 1 {
		t.Errorf("got %+v", c)
	}
	c = good(t, `"primary": "side", "delegates": [{"cniVersion": "1.0.0", "name": "main", "type": "bridge"}, {"cniVersion": "1.0.0", "name": "side", "type": "bridge"}]`)
	if c.primary.Name != "side" || len(c.defaults) != 1 || c.defaults[0].Name != "main" {
		t.Errorf("primary among the delegates: %+v", c)
	}
}

// Mistakes are keys of a plugin configuration, with words of the errors.
var Mistakes = map[string][]string{
	`"network": "a"`:                     {`"network"`, "unknown key"},
	`"primary": "a,b"`:                   {"primary", "2 networks"},
	`"primary": "a@eth1"`:                {"primary", "eth1"},
	`"primary": "multi"`:                 {"primary", "itself"},
	`"primary": 3`:                       {"primary", "3"},
	`"primary": "a", "networks": "b@"`:   {"networks[0]"},
	`"primary": "a", "result": "some"`:   {"result", "some"},
	`"primary": "a", "identity": "x"`:    {"identity", "x"},
	`"primary": "a", "timeout": "0"`:     {"timeout", "90s"},
	`"primary": "a", "logLevel": "loud"`: {"logLevel", "loud"},
	`"primary": "a", "agent": {"mode": "prefer", "jobNetworks": true}`:                    {"agent", "prefer", "want require with jobNetworks"},
	`"primary": "a", "agent": {"jobNetworks": true}`:                                      {"agent", "want require with jobNetworks"},
	`"delegates": [{"cniVersion": "1.0.0", "name": "multi", "type": "bridge"}]`:           {"delegates[0]", "multi"},
	`"primary": "a", "args": {}, "Args": {}`:                                              {`"Args"`, "unknown key"},
	`"primary": "a", "primary": "b"`:                                                      {`"primary"`, "twice"},
	`"primary": "a", "args": {"cni": {}, "CNI": {}}`:                                      {"args", `"CNI"`, "twice"},
	`"primary": "a", "runtimeConfig": {"ips": [], "ip\u017f": []}`:                        {"runtimeConfig", "twice"},
	`"primary": "a", "runtimeConfig": {"portMappings": [{"hostPort": 1, "HostPort": 2}]}`: {"portMappings[0]", `"HostPort"`, "twice"},
	`"delegates": [{"type": "bridge"}]`:                                                   {"delegates[0]"},
}

func TestConfRefused(t *testing.T) {
	for more, words := range Mistakes {
		_, err := parsed(t, more)
		requireError(t, err, types.ErrInvalidNetworkConfig, words...)
	}
	_, err := parsed(t, `"primary": "a", "prevResult": {"cniVersion": "1.0.0", "ips": 3}`)
	requireError(t, err, types.ErrDecodingFailure)
}
