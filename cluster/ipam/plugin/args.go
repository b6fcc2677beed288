// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/state"
)

// args are the pairs of CNI_ARGS. Keys that this plugin does not know are those of others.
type args map[string]string

func parseArgs(text string) (args, error) {
	a := args{}
	for _, pair := range strings.Split(text, ";") {
		if pair == "" {
			continue
		}
		key, value, found := strings.Cut(pair, "=")
		if !found || strings.Contains(value, "=") {
			return nil, coded(types.ErrInvalidEnvironmentVariables, fmt.Errorf("CNI_ARGS has %q: want KEY=VALUE", pair))
		}
		if _, twice := a[key]; twice {
			return nil, coded(types.ErrInvalidEnvironmentVariables, fmt.Errorf("CNI_ARGS has %s twice: want it once", key))
		}
		a[key] = value
	}
	return a, nil
}

// job returns the job of the container as Nomad sets it, which is zero if the runtime is
// another one, or if the pairs are those of another allocation.
func (a args) job(containerID string) ipam.Job {
	id := a["NOMAD_ALLOC_ID"]
	if id == "" || id != state.AllocationOf(containerID) {
		return ipam.Job{}
	}
	return ipam.Job{
		Namespace: a["NOMAD_NAMESPACE"], Job: a["NOMAD_JOB_ID"], Group: a["NOMAD_GROUP_NAME"], Allocation: id,
		Key: cmp.Or(a["ADDRESS_KEY"], a["NOMAD_ALLOC_INDEX"]),
	}
}
