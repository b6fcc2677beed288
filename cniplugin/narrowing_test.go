// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin

import (
	"testing"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/selection"
)

// TestNarrowingArgs: a job narrows its traffic by CNI arguments, or by the meta that the agent has read, and each direction in one place.
func TestNarrowingArgs(t *testing.T) {
	for _, test := range []struct {
		args, cni string
		want      selection.Narrowing
		code      uint
		word      string
	}{
		{"networks=a", `{}`, selection.Narrowing{}, 0, ""},
		{"networks=a;ingress=5432/tcp, icmp;egress=dns", `{}`, selection.Narrowing{Ingress: "5432/tcp, icmp", Egress: "dns"}, 0, ""},
		{"", `{"ingress": "none", "egress": "10.0.0.0/8"}`, selection.Narrowing{Ingress: "none", Egress: "10.0.0.0/8"}, 0, ""},
		{"egress=dns", `{"ingress": "none"}`, selection.Narrowing{Ingress: "none", Egress: "dns"}, 0, ""},
		{"ingress=none", `{"ingress": "none"}`, selection.Narrowing{}, types.ErrInvalidEnvironmentVariables, `CNI argument "ingress": is in args.cni, too`},
		{"ingress=", `{}`, selection.Narrowing{}, types.ErrInvalidNetworkConfig, `CNI argument "ingress": "": want parts`},
		{"egress=all", `{}`, selection.Narrowing{}, types.ErrInvalidNetworkConfig, `CNI argument "egress": "all": want a prefix`},
		{"", `{"egress": "10.0.0.1/8"}`, selection.Narrowing{}, types.ErrInvalidNetworkConfig, `args.cni: egress: "10.0.0.1/8": want 10.0.0.0/8`},
		{"", `{"egress": 5}`, selection.Narrowing{}, types.ErrInvalidNetworkConfig, "args.cni: egress"},
		{"Ingress=none", `{}`, selection.Narrowing{}, types.ErrInvalidEnvironmentVariables, `CNI argument "Ingress": is unknown: want networks, networks.NAME, ingress or egress`},
		{"", `{"Egress": "none"}`, selection.Narrowing{}, types.ErrInvalidNetworkConfig, `"Egress": unknown key: want networks, networks.NAME, ingress or egress`},
	} {
		c := good(t, `"primary": "web", "args": {"cni": `+test.cni+`}`)
		r := request{args: &skel.CmdArgs{ContainerID: "a1", Args: test.args}, conf: c}
		s, err := r.setup()
		if test.word != "" {
			requireError(t, err, test.code, test.word)
		} else if err != nil || s.Narrowing != test.want || len(s.Args) > 0 {
			t.Errorf("%s %s: %+v, %v, want %+v", test.args, test.cni, s, err, test.want)
		}
	}
}

// TestNarrowingBehindOthers: behind other plugins, whose main network would have all of its traffic, a job that narrows it is refused, with networks and without.
func TestNarrowingBehindOthers(t *testing.T) {
	for _, test := range []struct{ args, cni string }{
		{"ingress=none", `{}`}, {"networks=a;egress=none", `{}`}, {"", `{"ingress": "5432/tcp"}`},
	} {
		r := request{args: &skel.CmdArgs{ContainerID: "a1", Args: test.args}, conf: good(t, `"args": {"cni": `+test.cni+`}`)}
		_, err := r.setup()
		requireError(t, err, types.ErrInvalidNetworkConfig, "ingress and egress: the main network is that of the plugins before this one")
	}
}
