// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
)

type requestFlags struct {
	primary  string
	networks string
	publish  []string
	dns      string
	identity policy.Identity

	narrowing allocation.Narrowing
}

func (f *requestFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.primary, "primary", "", "main network, as NAME, NAME@INTERFACE or a JSON object (default interface eth0)")
	flags.StringVar(&f.networks, "networks", "", "extra networks, as NAME[@INTERFACE],... or a JSON list (default interfaces net1, net2, ...)")
	flags.StringArrayVarP(&f.publish, "publish", "p", nil, "port, as [LABEL=][IP:]HOST-PORT[:PORT][/PROTOCOL], or range, as 8000-8010:8000-8010; tcp (default), udp, sctp, or several, as tcp+udp; may be repeated")
	flags.StringVar(&f.dns, "dns", "", "DNS of the allocation: primary, merge (the primary's, then those of the extra networks), or the name of a network (default: as configured, else primary)")
	flags.StringVar(&f.narrowing.Ingress, "ingress", "", "what may reach the allocation, as \"5432/tcp, 10.0.0.0/8 9100/tcp\", or none (default all that isolation allows)")
	flags.StringVar(&f.narrowing.Egress, "egress", "", "what the allocation may reach, as \"10.0.0.0/8 5432/tcp, dns\", or none (default all that isolation allows)")
	flags.StringVar(&f.identity.Namespace, "namespace", "", "Nomad namespace of the allocation, for the rules of the networks (default unknown)")
	flags.StringVar(&f.identity.Job, "job", "", "Nomad job of the allocation, for the rules of the networks (default unknown)")
}

func (f *requestFlags) request(id string) (hook.Request, error) {
	r := hook.Request{ID: id, Identity: f.identity, DNS: f.dns, Narrowing: f.narrowing, Operator: true}
	primary, err := selection.Parse(f.primary)
	if err != nil {
		return r, fmt.Errorf("--primary: %w", err)
	}
	switch len(primary) {
	case 0:
	case 1:
		r.Primary = &primary[0]
	default:
		return r, cli.Usage(fmt.Errorf("--primary %q: want one network; further ones belong to --networks", f.primary))
	}
	if r.Networks, err = selection.Parse(f.networks); err != nil {
		return r, fmt.Errorf("--networks: %w", err)
	}
	for _, text := range f.publish {
		ports, err := portmap.Parse(text)
		if err != nil {
			return r, fmt.Errorf("--publish: %w", err)
		}
		r.Ports = append(r.Ports, ports...)
	}
	return r, nil
}
