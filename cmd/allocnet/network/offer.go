// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package network

import (
	"errors"
	"fmt"
	"io"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/doctor"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/state"
)

type offer struct {
	catalog *cniconf.Catalog
	host    policy.Source
	ready   func(*cniconf.Network) error
	engine  hook.Config
}

func (o offer) viewAll(s *cli.Settings, identity policy.Identity) (cli.View, error) {
	all, names := catalogJSON{Networks: []networkJSON{}}, []string(nil)
	healthy := len(o.catalog.Broken) == 0
	for n, err := range o.engine.Usable(o.catalog).All() {
		if !o.permits(n, identity) {
			continue
		}
		network := o.describe(n, err)
		healthy = healthy && network.Problem == ""
		all.Networks = append(all.Networks, network)
		if !n.IsOwn() {
			names = append(names, n.Name)
		}
	}
	for _, broken := range o.catalog.Broken {
		all.Broken = append(all.Broken, broken.Error())
	}
	for _, n := range o.catalog.Shadowed {
		all.Shadowed = append(all.Shadowed, fmt.Sprintf("%s: an earlier file has the name %q", n.Path, n.Name))
	}
	all.Policy = o.hostPolicy()
	var err error
	if all.Exposed, err = Exposed(s, o.catalog); err != nil {
		return cli.View{}, err
	}
	return cli.View{JSON: all, Names: names, Table: func(w io.Writer, t cli.Terminal) error { return printCatalog(w, t, all) }}, cli.Unhealthy(healthy)
}

func (o offer) viewOne(s *cli.Settings, name string) (cli.View, error) {
	n, err := o.catalog.Lookup(name)
	if err != nil {
		return cli.View{}, err
	}
	one := networkDetailJSON{networkJSON: o.describe(n, o.engine.Usable(o.catalog).Check(n)), HostPolicy: o.hostPolicy(), Configuration: n.List.Bytes}
	for _, other := range o.catalog.Shadowed {
		if other.Name == name {
			one.Shadowed = append(one.Shadowed, other.Path)
		}
	}
	exposed, err := Exposed(s, o.catalog)
	if err != nil {
		return cli.View{}, err
	}
	for _, e := range exposed {
		if e.Network == name {
			one.Warning = e.Problem()
		}
	}
	return cli.View{JSON: one, Names: []string{name}, Table: func(w io.Writer, t cli.Terminal) error { return printNetwork(w, t, one) }}, cli.Unhealthy(one.Problem == "")
}

func (o offer) hostPolicy() string { return fmt.Sprintf("%s (%s)", o.host.Describe(), o.host.File) }

// permits tells whether the rules allow an identity. A rule about what the identity
// does not have does not count.
func (o offer) permits(n *cniconf.Network, identity policy.Identity) bool {
	rules, err := policy.Of(n)
	if err != nil {
		return identity == policy.Identity{} // it cannot be attached, and is listed with the reason
	}
	host := o.host
	for _, r := range []*policy.Rules{&rules.Rules, &host.Rules} {
		if identity.Namespace == "" {
			r.Namespaces = nil
		}
		if identity.Job == "" {
			r.Jobs = nil
		}
	}
	var denied *policy.DeniedError
	err = policy.Check(identity, host, []policy.Attachment{{Network: n.Name, Rules: rules}})
	return !errors.As(err, &denied) || denied.Rule != "namespaces" && denied.Rule != "jobs"
}

// describe returns a network; the error is why it cannot be attached.
func (o offer) describe(n *cniconf.Network, err error) networkJSON {
	network := networkJSON{Name: n.Name, Path: n.Path, CNIVersion: n.List.CNIVersion, Plugins: n.PluginTypes(), Capabilities: n.Capabilities(), Subnets: n.Subnets(), Ready: notReady}
	rules, malformed := policy.Of(n)
	network.Policy = rules.Describe()
	if malformed != nil {
		err = malformed
	}
	network.Executor = state.InProcess
	if why := o.engine.WhyPlugins(n); why != nil {
		network.Executor, network.WhyPlugins = state.Plugins, why.Error()
	}
	if err == nil {
		network.Ready, err = readiness(o.ready(n))
	}
	if err == nil && n.IsOwn() {
		network.Ready = forJobs
	}
	network.Problem, network.Warnings = cli.ErrorText(err), o.engine.Warnings(n)
	return network
}

func readiness(err error) (ready, error) {
	switch {
	case err == nil:
		return isReady, nil
	case errors.Is(err, hook.ErrNoStatus):
		return notReported, nil
	case cli.RequireRoot() != nil:
		return readyUnknown, fmt.Errorf("%w (without root)", err)
	}
	return notReady, err
}

// Exposed returns the networks with rules that Nomad does not apply, by the rules of this host.
func Exposed(s *cli.Settings, offered *cniconf.Catalog) ([]doctor.Exposed, error) {
	host, err := policy.Load(policy.DefaultFile)
	if err != nil {
		return nil, err
	}
	return doctor.FindExposed(s.NomadConfDir(), offered, host)
}
