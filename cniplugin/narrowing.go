// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin

import (
	"encoding/json"
	"fmt"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/selection"
)

// Keys of CNI_ARGS, and of args.cni, with what a job leaves of the traffic of its allocations.
const (
	argIngress = "ingress"
	argEgress  = "egress"
)

func narrows(key string) bool { return key == argIngress || key == argEgress }

// narrowing returns what the job leaves of its traffic, by CNI_ARGS, or by the meta that the agent has read.
func narrowing(args map[string]string, c *conf) (n selection.Narrowing, err error) {
	if n.Ingress, err = narrowed(argIngress, args, c, isolation.ParseIngress); err != nil {
		return n, err
	}
	n.Egress, err = narrowed(argEgress, args, c, isolation.ParseEgress)
	return n, err
}

// narrowed returns one of the two; empty: the job leaves all.
func narrowed(key string, args map[string]string, c *conf, parse func(string) (isolation.Narrowing, error)) (string, error) {
	text, given := args[key]
	place := fmt.Sprintf("CNI argument %q", key)
	if read := c.Args.CNI[key]; read != nil {
		if given {
			return "", badArg(key, "is in args.cni, too, where the agent has the meta of the job: set it in one place")
		}
		place, given = "args.cni: "+key, true
		if err := json.Unmarshal(read, &text); err != nil {
			return "", invalid(fmt.Errorf("%s: %w", place, err))
		}
	}
	if !given {
		return "", nil
	}
	if _, err := parse(text); err != nil {
		return "", refuse(types.ErrInvalidNetworkConfig, fmt.Sprintf("%s: %v", place, err))
	}
	return text, nil
}
