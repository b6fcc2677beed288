// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/policy"
)

// Exposed is a network with rules that Nomad offers itself: for a group with mode
// = "cni/NAME" Nomad runs the plugins, and does not enforce the rules.
type Exposed struct {
	Network string `json:"network"`
	// Path is the file in the directory that Nomad reads. Rules is the file
	// that has the rules.
	Path  string `json:"path"`
	Rules string `json:"rules"`
}

// Problem describes the risk.
func (e Exposed) Problem() string {
	return fmt.Sprintf("network %q has rules (in %s), but Nomad offers it itself if it reads %s: for a job with mode = \"cni/%s\" no rule is enforced", e.Network, e.Rules, e.Path, e.Network)
}

// Fix returns the steps that remove the risk.
func (e Exposed) Fix() string {
	return "move " + e.Path + " to " + cniconf.OwnDir + ", which Nomad does not read (where --conf-dir or the agent's conf_dir is set, name that directory first), and run allocnet conf generate again"
}

// FindExposed returns the networks with rules in the directory that Nomad reads.
// Rules are the network's own, the host's, or those of the network with the same
// name in the catalog. Networks of allocnet-cni are left out: the plugin enforces
// the rules.
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
		if n.IsOwn() {
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

// rulesOf returns the first file whose rules restrict, empty for none. Rules that
// cannot be read count as restricting.
func rulesOf(networks []*cniconf.Network, host policy.Source) string {
	for _, n := range networks {
		rules, err := policy.Of(n)
		if err != nil || rules.Restrict() {
			return n.Path
		}
	}
	if host.Restrict() {
		return host.File
	}
	return ""
}

// exposed reports networks whose rules Nomad does not enforce: as a warning if it
// is only assumed that Nomad reads the directory.
func (d *Doctor) exposed(r *Report, c *cniconf.Catalog) {
	file := cmp.Or(d.PolicyFile, policy.DefaultFile)
	host, err := policy.Load(file)
	if err != nil {
		r.addError(file, err.Error(), "edit "+file)
		return
	}
	dir, report := d.NomadConfDir, r.addError
	if dir == "" {
		dir, report = cniconf.NomadDir(d.ConfDirs), r.addWarning
	}
	found, err := FindExposed(dir, c, host)
	if err != nil {
		r.addError(dir, err.Error(), "make the directory readable")
	}
	for _, e := range found {
		report(e.Path, e.Problem(), e.Fix())
	}
}

// unread reports conflists of allocnet-cni in a directory that Nomad does not read: no
// job can use them.
func (d *Doctor) unread(r *Report, c *cniconf.Catalog) {
	if d.NomadConfDir == "" {
		return
	}
	for _, n := range c.Networks {
		if n.IsOwn() && filepath.Dir(n.Path) != filepath.Clean(d.NomadConfDir) {
			r.addError(n.Path, fmt.Sprintf("Nomad does not read this directory, but %s: no job can use mode = \"cni/%s\"", d.NomadConfDir, n.Name),
				"move the file to "+d.NomadConfDir+", or set cni_config_dir of the Nomad client")
		}
	}
}
