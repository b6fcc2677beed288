// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
)

// wishes are the flags that say which networks an allocation shall have.
type wishes struct {
	primary  string
	networks string
	publish  []string
	identity policy.Identity
}

func (w *wishes) register(flags *pflag.FlagSet) {
	flags.StringVar(&w.primary, "primary", "", "the main network, as NAME, NAME@INTERFACE or a JSON object (default interface eth0)")
	flags.StringVar(&w.networks, "networks", "", "the extra networks, as NAME[@INTERFACE],... or a JSON list (default interfaces net1, net2, ...)")
	flags.StringArrayVarP(&w.publish, "publish", "p", nil, "a port, as [LABEL=][HOST-IP:]HOST-PORT[:PORT][/tcp|/udp|/sctp]; may be repeated")
	flags.StringVar(&w.identity.Namespace, "namespace", "", "whose it is: the namespace that the policy of the networks is about (default unknown)")
	flags.StringVar(&w.identity.Job, "job", "", "whose it is: the job (default unknown)")
}

// request turns the flags into a request for the allocation.
func (w *wishes) request(id string) (hook.Request, error) {
	r := hook.Request{ID: id, Identity: w.identity, Operator: true}
	primary, err := selection.Parse(w.primary)
	if err != nil {
		return r, fmt.Errorf("--primary: %w", err)
	}
	switch len(primary) {
	case 0:
	case 1:
		r.Primary = &primary[0]
	default:
		return r, usage(fmt.Errorf("--primary %q: want one network; further ones belong to --networks", w.primary))
	}
	if r.Networks, err = selection.Parse(w.networks); err != nil {
		return r, fmt.Errorf("--networks: %w", err)
	}
	for _, text := range w.publish {
		port, err := portmap.Parse(text)
		if err != nil {
			return r, fmt.Errorf("--publish: %w", err)
		}
		r.Ports = append(r.Ports, port)
	}
	return r, nil
}
