// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"regexp"
	"slices"
	"testing"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/allocnet/allocnet/nomad/driver/proto"
	"github.com/allocnet/allocnet/selection"
)

// FuzzTaskConfig reads a task's config block as Nomad sends it. What the engine
// would take of it has names that are names, and only ports of the group.
func FuzzTaskConfig(f *testing.F) {
	for _, config := range []any{
		map[string]any{"network": map[string]any{"storage": map[string]any{"ips": []string{"10.1.0.9/24"}, "ports": []string{"repl"}, "mtu": 1400, "cni_args": []map[string]string{{"a": "b"}}, "bandwidth": nil}}},
		map[string]any{"network": map[string]any{"../a": map[string]any{"interface": "../x", "advertise": true, "bandwidth": map[string]any{"ingress_rate": 1, "ingress_burst": 1}}}},
		map[string]any{"network": []any{1}},
	} {
		var data []byte
		if err := codec.NewEncoderBytes(&data, &codec.MsgpackHandle{}).Encode(config); err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	group := []*proto.PortMapping{{Label: "repl", Value: 25000, To: 5433}}
	names := regexp.MustCompile(`^[\w.-]+$`)
	f.Fuzz(func(t *testing.T, data []byte) {
		var c taskConfig
		if decode(data, &c) != nil {
			return
		}
		elements, err := c.elements()
		if err != nil {
			return
		}
		chosen, err := c.advertised()
		if err == nil && !slices.Contains(c.names(), chosen) {
			t.Errorf("%q advertises %q", data, chosen)
		}
		ports, err := c.ports(group)
		for _, p := range ports {
			if err == nil && (p.Label != "repl" || p.HostPort != 25000) {
				t.Errorf("%q has port %+v", data, p)
			}
		}
		elements, err = selection.AssignFurther([]string{"lo", "eth0"}, 1, elements)
		if err != nil {
			return // the engine refuses it
		}
		for _, e := range elements {
			if !names.MatchString(e.Name) || !names.MatchString(e.Interface) {
				t.Errorf("%q attaches %+v", data, e)
			}
		}
	})
}
