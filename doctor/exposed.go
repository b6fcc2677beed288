// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"errors"
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/policy"
)

// ownPlugin is the plugin that holds attachments to the rules.
const ownPlugin = "allocnet-cni"

// Exposed is a network with rules that Nomad offers itself: it runs the plugins
// of a group with mode = "cni/NAME" without looking at the rules.
type Exposed struct {
	Network string `json:"network"`
	// Path is the file in the directory that Nomad reads, Rules the one that
	// has the rules.
	Path  string `json:"path"`
	Rules string `json:"rules"`
}

// Problem says what is wrong.
func (e Exposed) Problem() string {
	return fmt.Sprintf("network %q has rules (in %s), but Nomad offers it itself if it reads %s: a job with mode = \"cni/%s\" is attached without them", e.Network, e.Rules, e.Path, e.Network)
}

// Fix says what to do about it.
func (e Exposed) Fix() string {
	return "move " + e.Path + " to a directory that Nomad does not read, such as /etc/allocnet/networks, put that first in --conf-dir (the agent's conf_dir), and run allocnet conf generate again"
}

// FindExposed returns the networks that the directory which Nomad reads offers,
// and that have rules: their own, the host's, or those of the network that the
// catalog has under the name. Networks of allocnet-cni are held to them.
func FindExposed(nomadDir string, c *cniconf.Catalog, host policy.Source) ([]Exposed, error) {
	offered, err := cniconf.Load(nomadDir)
	if errors.Is(err, cniconf.ErrNoDir) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var exposed []Exposed
	for _, n := range offered.Networks {
		if slices.Contains(n.PluginTypes(), ownPlugin) {
			continue
		}
		sources := []*cniconf.Network{n}
		if selected, err := c.Lookup(n.Name); err == nil {
			sources = append(sources, selected)
		}
		if file := rulesOf(sources, host); file != "" {
			exposed = append(exposed, Exposed{n.Name, n.Path, file})
		}
	}
	return exposed, nil
}

// rulesOf returns the first file whose rules restrict; empty for none. Rules
// that cannot be read were meant to.
func rulesOf(networks []*cniconf.Network, host policy.Source) string {
	for _, n := range networks {
		rules, err := policy.Parse(n.Path, n.Options)
		if err != nil || rules.Restrict() {
			return n.Path
		}
	}
	if host.Restrict() {
		return host.File
	}
	return ""
}

// exposed reports networks whose rules Nomad does not know. Where the directory
// is only believed to be Nomad's it is advice.
func (d *Doctor) exposed(r *Report, c *cniconf.Catalog) {
	file := d.PolicyFile
	if file == "" {
		file = policy.DefaultFile
	}
	host, err := policy.Load(file)
	if err != nil {
		r.wrong(file, err.Error(), "edit "+file)
		return
	}
	dir, report := d.NomadConfDir, r.wrong
	if dir == "" && len(d.ConfDirs) > 0 {
		dir, report = d.ConfDirs[len(d.ConfDirs)-1], r.advise
	}
	found, err := FindExposed(dir, c, host)
	if err != nil {
		r.wrong(dir, err.Error(), "see that the directory can be read")
	}
	for _, e := range found {
		report(e.Path, e.Problem(), e.Fix())
	}
}
