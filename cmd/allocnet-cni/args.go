// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/selection"
)

// Arguments by which a job names networks.
const (
	// argNetworks is the whole selection, in either form.
	argNetworks = "networks"
	// argNetwork, with a name behind it, is one network: an element without
	// its name, or nothing. A job can so name each in a block of its own.
	argNetwork = "networks."
)

// Arguments that Nomad adds, from 1.9.4 on, and no job can override.
const (
	argAllocID   = "NOMAD_ALLOC_ID"
	argNamespace = "NOMAD_NAMESPACE"
	argJob       = "NOMAD_JOB_ID"
	argGroup     = "NOMAD_GROUP_NAME"
	argRegion    = "NOMAD_REGION"
)

// nomadArgs go on to the networks' plugins.
var nomadArgs = []string{argAllocID, argNamespace, argJob, argGroup, argRegion, "CONSUL_IPTABLES_CONFIG"}

// harmless arguments are those that other runtimes add.
func harmless(key string) bool {
	return key == "IgnoreUnknown" || strings.HasPrefix(key, "NOMAD_") || strings.HasPrefix(key, "K8S_POD_") || slices.Contains(nomadArgs, key)
}

// parseArgs reads CNI_ARGS. The form has no escape, so that a value with '='
// or ';' would be read differently by every plugin.
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
			return nil, badArg(key, fmt.Sprintf("%q has a '=', which CNI_ARGS cannot carry: leave it out, or write \\u003d inside JSON", value))
		case twice:
			return nil, badArg(key, "stands twice")
		case strings.Contains(value, "${"):
			return nil, badArg(key, fmt.Sprintf("%q has a variable that Nomad does not know: it replaces those of the allocation and of the node, as in ${NOMAD_ALLOC_INDEX} and ${meta.rack}", value))
		}
		args[key] = value
	}
	return args, nil
}

func badArg(key, reason string) error {
	return refuse(types.ErrInvalidEnvironmentVariables, fmt.Sprintf("CNI argument %q: %s", key, reason))
}

// identity returns what Nomad says of the allocation. A job can write the same
// arguments where Nomad does not, so they must be all there and be about this
// container.
func identity(args map[string]string, c *conf, containerID string) (policy.Identity, error) {
	id, said := args[argAllocID]
	_, namespace := args[argNamespace]
	if c.Identity == "unknown" || !said && !namespace {
		return policy.Identity{}, nil
	}
	if id != containerID || !namespace {
		return policy.Identity{}, badArg(argAllocID, fmt.Sprintf("%q and %s %q: want the container ID %s and a namespace, as Nomad gives them: a job cannot set them", id, argNamespace, args[argNamespace], containerID))
	}
	return policy.Identity{Namespace: args[argNamespace], Job: args[argJob], Group: args[argGroup], Region: args[argRegion]}, nil
}

// passed returns the arguments that go on to the networks' plugins. The job's
// do not: IP and MAC, for one, mean something to the reference plugins, and
// would pass the policy by.
func passed(args map[string]string, c *conf) map[string]string {
	pass := map[string]string{}
	for key, value := range args {
		forged := c.Identity == "unknown" && strings.HasPrefix(key, "NOMAD_")
		if slices.Contains(nomadArgs, key) && !forged || slices.Contains(c.PassArgs, key) {
			pass[key] = value
		}
	}
	return pass
}

// wish is something that names networks, and where it stands.
type wish struct {
	place, key string
	value      json.RawMessage
	elements   []selection.Element
}

// alone tells whether the wish is about one network.
func (w wish) alone() bool { return strings.HasPrefix(w.key, argNetwork) }

func (w wish) refuse(reason string) error {
	return refuse(types.ErrInvalidNetworkConfig, w.place+": "+reason)
}

// parse reads the networks that a wish names.
func (w *wish) parse() (err error) {
	if !w.alone() {
		w.elements, err = parseNetworks(w.value)
		return err
	}
	text := string(w.value)
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(w.value, &text); err != nil {
			return err
		}
	}
	e, err := selection.ParseElement(strings.TrimPrefix(w.key, argNetwork), text)
	w.elements = []selection.Element{e}
	return err
}

// wishes returns what names networks: in CNI_ARGS, in the capability
// arguments, and in args.cni, each in the order of the keys.
func wishes(args map[string]string, c *conf) ([]wish, error) {
	var all []wish
	for _, key := range slices.Sorted(maps.Keys(args)) {
		switch {
		case key == argNetworks || strings.HasPrefix(key, argNetwork):
			text, err := json.Marshal(args[key])
			if err != nil {
				return nil, err
			}
			all = append(all, wish{place: "CNI_ARGS", key: key, value: text})
		case !harmless(key) && !slices.Contains(c.PassArgs, key):
			return nil, badArg(key, "is unknown: want networks, or networks.NAME")
		}
	}
	if c.RuntimeConfig.Networks != nil {
		all = append(all, wish{place: "the capability arguments", key: argNetworks, value: c.RuntimeConfig.Networks})
	}
	for _, key := range slices.Sorted(maps.Keys(c.Args.CNI)) {
		if key != argNetworks && !strings.HasPrefix(key, argNetwork) {
			return nil, invalid(fmt.Errorf("args.cni: %q: unknown key: want networks, or networks.NAME", key))
		}
		all = append(all, wish{place: "args.cni", key: key, value: c.Args.CNI[key]})
	}
	return all, nil
}

// selected returns the networks that the job names: those of "networks" first,
// then each of "networks.NAME", by name. What is said in two places is an
// error.
func selected(args map[string]string, c *conf) ([]selection.Element, error) {
	all, err := wishes(args, c)
	if err != nil {
		return nil, err
	}
	var elements []selection.Element
	var whole *wish // the one of argNetworks
	said := map[string]wish{}
	for _, w := range all {
		if err := w.parse(); err != nil {
			return nil, w.refuse(err.Error())
		}
		if !w.alone() {
			if whole != nil {
				return nil, w.refuse(fmt.Sprintf("%q stands in %s already: want it in one place", argNetworks, whole.place))
			}
			whole = &w
		}
		for _, e := range w.elements {
			other, twice := said[e.Name]
			if twice && (w.alone() || other.alone()) {
				return nil, w.refuse(fmt.Sprintf("%q names the network %q, and so does %q in %s: want it in one place", w.key, e.Name, other.key, other.place))
			}
			said[e.Name] = w
		}
		elements = append(elements, w.elements...)
	}
	return elements, nil
}
