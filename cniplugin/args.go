// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/policy"
)

// Keys of CNI_ARGS that a job sets.
const (
	// argNetworks is the whole selection, in either form.
	argNetworks = "networks"
	// argNetwork is the prefix of a key networks.NAME, which selects one
	// network. Its value is a JSON object without name, or empty for defaults.
	argNetwork = "networks."
	// argAddressKey distinguishes the sticky addresses of a group, for allocnet-ipam.
	argAddressKey = "ADDRESS_KEY"
)

// Keys that Nomad sets, from 1.9.4 on, and that no job can override.
const (
	argAllocID   = "NOMAD_ALLOC_ID"
	argNamespace = "NOMAD_NAMESPACE"
	argJob       = "NOMAD_JOB_ID"
	argGroup     = "NOMAD_GROUP_NAME"
	argRegion    = "NOMAD_REGION"
)

// nomadArgs are those of Nomad that are forwarded to the networks' plugins.
var nomadArgs = []string{argAllocID, argNamespace, argJob, argGroup, argRegion, "CONSUL_IPTABLES_CONFIG"}

// jobArgs are those of a job that are forwarded to the networks' plugins. A key holds only within
// the group of the job.
var jobArgs = []string{argAddressKey}

// ignorable reports whether a key is one that is for other plugins.
func ignorable(key string) bool {
	return key == "IgnoreUnknown" || strings.HasPrefix(key, "NOMAD_") || strings.HasPrefix(key, "K8S_POD_") || slices.Contains(nomadArgs, key) || slices.Contains(jobArgs, key)
}

// parseArgs parses CNI_ARGS. The format has no escape: plugins disagree about a
// value with '=' or ';'.
func parseArgs(text string) (map[string]string, error) {
	args := map[string]string{}
	for _, pair := range strings.Split(text, ";") {
		if pair == "" {
			continue
		}
		key, value, found := strings.Cut(pair, "=")
		_, twice := args[key]
		switch {
		case !found || key == "":
			return nil, badArg(pair, "want KEY=VALUE")
		case strings.Contains(value, "="):
			return nil, badArg(key, fmt.Sprintf("%q has a '=', which CNI_ARGS cannot carry: remove it, or write \\u003d inside JSON", value))
		case twice:
			return nil, badArg(key, "is set twice")
		case strings.Contains(value, "${"):
			return nil, badArg(key, fmt.Sprintf("%q has a variable that Nomad does not know: it interpolates those of the allocation and of the node, as ${NOMAD_ALLOC_INDEX} and ${meta.rack}", value))
		}
		args[key] = value
	}
	return args, nil
}

func badArg(key, reason string) error {
	return refuse(types.ErrInvalidEnvironmentVariables, fmt.Sprintf("CNI argument %q: %s", key, reason))
}

// argIdentity is the key of args.cni in which the agent passes the identity that it has
// read from Nomad.
const argIdentity = "identity"

// identity returns the identity that the agent has read from Nomad, else that of the
// arguments. Arguments that contradict what the agent has read are those of a job.
func identity(args map[string]string, c *conf, containerID string) (policy.Identity, error) {
	claimed, err := claimedIdentity(args, c, containerID)
	given := c.Args.CNI[argIdentity]
	if err != nil || given == nil {
		return claimed, err
	}
	var read policy.Identity
	if err := json.Unmarshal(given, &read); err != nil {
		return read, invalid(fmt.Errorf("args.cni: %s: %w", argIdentity, err))
	}
	for _, field := range []struct{ key, claimed, read string }{
		{argNamespace, claimed.Namespace, read.Namespace}, {argJob, claimed.Job, read.Job}, {argGroup, claimed.Group, read.Group}, {argRegion, claimed.Region, read.Region},
	} {
		if field.claimed != "" && field.claimed != field.read {
			return policy.Identity{}, badArg(field.key, fmt.Sprintf("is %q, and Nomad says %q of the allocation: a job cannot set it", field.claimed, field.read))
		}
	}
	return read, nil
}

// claimedIdentity returns the identity that Nomad sets for the allocation. Before 1.9.4 a
// job can set the same keys. So they are accepted only together, and only for this
// container.
func claimedIdentity(args map[string]string, c *conf, containerID string) (policy.Identity, error) {
	id, hasID := args[argAllocID]
	_, namespace := args[argNamespace]
	if c.Identity == "unknown" || !hasID && !namespace {
		return policy.Identity{}, nil
	}
	if id != containerID || !namespace {
		return policy.Identity{}, badArg(argAllocID, fmt.Sprintf("%q and %s %q: want the container ID %s and a namespace, as Nomad sets them: a job cannot", id, argNamespace, args[argNamespace], containerID))
	}
	return policy.Identity{Namespace: args[argNamespace], Job: args[argJob], Group: args[argGroup], Region: args[argRegion]}, nil
}

// forwarded returns the arguments for the networks' plugins. Others of the job are not
// among them: IP and MAC have a meaning for the reference plugins, and would
// bypass the policy.
func forwarded(args map[string]string, c *conf) map[string]string {
	pass := map[string]string{}
	for key, value := range args {
		forged := c.Identity == "unknown" && strings.HasPrefix(key, "NOMAD_")
		if slices.Contains(nomadArgs, key) && !forged || slices.Contains(jobArgs, key) || slices.Contains(c.PassArgs, key) {
			pass[key] = value
		}
	}
	return pass
}
