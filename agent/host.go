// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/state"
)

func (a *Agent) getNetworks(r *http.Request) (any, error) {
	catalog, err := a.config.catalog()
	if err != nil {
		return nil, err
	}
	answer := api.Networks{Networks: []api.Network{}, Broken: []string{}}
	for n, err := range a.config.usable(catalog).All() {
		network := api.Network{
			Name: n.Name, Path: n.Path, CNIVersion: n.List.CNIVersion,
			Plugins: n.PluginTypes(), Capabilities: append([]string{}, n.Capabilities()...), Subnets: n.Subnets(), Usage: usageOf(n, a.log),
		}
		if err == nil {
			err = a.engine.Ready(r.Context(), n)
		}
		if err != nil && !errors.Is(err, hook.ErrNoStatus) {
			network.Problem = err.Error()
		}
		answer.Networks = append(answer.Networks, network)
	}
	for _, broken := range catalog.Broken {
		answer.Broken = append(answer.Broken, broken.Error())
	}
	return answer, nil
}

// usageOf counts the addresses of a network's pools.
func usageOf(n *cniconf.Network, log hclog.Logger) []api.NetworkUsage {
	usage, err := n.Usage()
	if err != nil {
		log.Warn("not all leases of a network can be read", "network", n.Name, "error", err)
	}
	var all []api.NetworkUsage
	for _, u := range usage {
		total, _ := u.Total.Float64()
		all = append(all, api.NetworkUsage{Family: u.Family, Used: u.Used, Total: total})
	}
	return all
}

func getDescription(*http.Request) (any, error) { return json.RawMessage(api.Description), nil }

// getHealth reads nothing: it answers as long as the agent does.
func getHealth(*http.Request) (any, error) { return api.Health{Status: "alive"}, nil }

// getReady answers whether the agent can attach an allocation now.
func (a *Agent) getReady(r *http.Request) (any, error) {
	problems := a.problems(r.Context())
	if len(problems) == 0 {
		return api.Health{Status: "ready"}, nil
	}
	return nil, &api.Error{
		Code: types.ErrPluginNotAvailable, Msg: "not ready", Details: strings.Join(problems, "; "),
		Status: http.StatusServiceUnavailable,
	}
}

func (a *Agent) problems(ctx context.Context) []string {
	var problems []string
	if a.gate.isClosed() {
		problems = append(problems, "the agent is stopping")
	}
	if why := a.config.unusable(); why != "" {
		problems = append(problems, why)
	}
	for _, err := range a.engine.List(ctx) {
		// One unreadable record does not keep other allocations from being attached.
		if err != nil && !isType[*state.UnreadableError](err) {
			problems = append(problems, err.Error())
		}
		break // what keeps all from being listed comes first: a host may have thousands
	}
	if a.config.Ready != nil {
		problems = append(problems, a.config.Ready()...)
	}
	return problems
}

// unusable returns why no network can be attached; empty if at least one can.
func (c Config) unusable() string {
	if c.HostNetwork {
		return ""
	}
	catalog, err := c.catalog()
	if err != nil {
		return err.Error()
	}
	usable, problems := c.usable(catalog).Split()
	switch {
	case len(usable) > 0:
		return ""
	case len(problems) > 0:
		return problems[0].Error()
	}
	return fmt.Sprintf("no network in %s", strings.Join(c.ConfDirs, ", "))
}
