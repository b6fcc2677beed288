// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"regexp"
	"testing"

	"github.com/hashicorp/nomad/api"
)

// FuzzJobNetworks reads selections by network blocks and by meta.
func FuzzJobNetworks(f *testing.F) {
	f.Add("cni/storage", "mgmt@net5")
	f.Add("cni/../storage", `[{"name": "mgmt", "ips": ["10.0.0.1/24"]}]`)
	f.Add("bridge", "${meta.x}")
	name := regexp.MustCompile(`^[a-zA-Z0-9][\w.-]*$`)
	iface := regexp.MustCompile(`^\w[\w.-]*$`)
	f.Fuzz(func(t *testing.T, mode, meta string) {
		a := allocation([]*api.NetworkResource{{Mode: "cni/multi"}, {Mode: mode}}, map[string]string{metaKey: meta})
		j, err := jobOf(a)
		if err != nil {
			return
		}
		for _, e := range j.Networks {
			if !name.MatchString(e.Name) || e.Interface != "" && !iface.MatchString(e.Interface) {
				t.Errorf("mode %q and meta %q select %+v", mode, meta, e)
			}
		}
	})
}
