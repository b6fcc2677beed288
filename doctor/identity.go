// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/nomad"
)

// forgeable reports conflists of allocnet-cni that accept the identity which a job of
// this version of Nomad can write.
func (d *Doctor) forgeable(r *Report, c *cniconf.Catalog) {
	if !d.NomadVersion.JobsForgeIdentity() {
		return
	}
	for _, n := range c.Networks {
		if conf, found := ownConf(n); found && conf.Identity != "unknown" { // the default is that of Nomad
			r.addError(n.Path, fmt.Sprintf("in Nomad %s a job can set the namespace and the job that rules see: with another namespace it gets networks that are denied to its own", d.NomadVersion),
				fmt.Sprintf(`set "identity": "unknown" in the plugin configuration of %s, for example with allocnet conf generate, or upgrade Nomad to %s or later`, cniconf.OwnPlugin, nomad.Identity))
		}
	}
}

// unreadJobs reports conflists of allocnet-cni for a Nomad whose jobs select networks only where
// the agent reads them, and that do not require it: such a job starts with the main network alone.
func (d *Doctor) unreadJobs(r *Report, c *cniconf.Catalog) {
	if d.NomadVersion.Has(nomad.JobArguments) {
		return
	}
	for _, n := range c.Networks {
		if conf, found := ownConf(n); found && !conf.Agent.JobNetworks {
			r.addWarning(n.Path, fmt.Sprintf("in Nomad %s a job selects networks by meta and further network blocks, which only the agent reads: with this conflist it starts without them, and no error says so", d.NomadVersion),
				"run allocnet conf generate again, and allocnet agent with job_networks = true in its block nomad")
		}
	}
}

// unlisted reports conflists of allocnet-cni that lack a directory in which this host has networks, as those that are older than it: no job
// gets these networks, and rules of that directory hold for none.
func (d *Doctor) unlisted(r *Report, c *cniconf.Catalog) {
	for _, own := range c.Networks {
		conf, found := ownConf(own)
		if !found || conf.ConfDir == "" {
			continue
		}
		var dirs, names []string
		for _, dir := range filepath.SplitList(conf.ConfDir) {
			dirs = append(dirs, filepath.Clean(dir))
		}
		for _, n := range c.Networks {
			if !n.IsOwn() && !slices.Contains(dirs, filepath.Dir(n.Path)) {
				names = append(names, n.Name)
			}
		}
		if len(names) > 0 {
			r.addWarning(own.Path, fmt.Sprintf("its confDir is %s: jobs with mode = \"cni/%s\" do not have the networks of other directories, nor their rules: %s", conf.ConfDir, own.Name, strings.Join(names, ", ")),
				"run allocnet conf generate again, or add the directory to confDir")
		}
	}
}

// ownPluginConf has the keys of a plugin configuration of allocnet-cni that are examined.
type ownPluginConf struct {
	Type, Identity, ConfDir string
	Agent                   struct{ JobNetworks bool }
}

func ownConf(n *cniconf.Network) (ownPluginConf, bool) {
	for _, plugin := range n.List.Plugins {
		var conf ownPluginConf
		if json.Unmarshal(plugin.Bytes, &conf) == nil && conf.Type == cniconf.OwnPlugin {
			return conf, true
		}
	}
	return ownPluginConf{}, false
}
