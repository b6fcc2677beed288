// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/allocnet/allocnet/agent"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/state"
)

// newConflist returns the conflist of the block multi; nil without the block.
func (d *Daemon) newConflist() *agent.Conflist {
	m := d.config.Multi
	if m == nil {
		return nil
	}
	multi := cniconf.Multi{
		Name: m.Name, Primary: m.Primary, Networks: m.Networks, ConfDirs: d.config.ConfDirs, AllocDir: m.AllocDir, Identity: m.Identity,
		PluginDir: strings.Join(d.config.PluginDirs, ":"),
	}
	if d.config.Executor == hook.ExecutorPlugins {
		multi.Executor = d.config.Executor
	}
	if d.config.StateDir != state.DefaultDir {
		multi.StateDir = d.config.StateDir
	}
	if m.Agent != "" {
		n := d.config.Nomad
		multi.Agent = &cniconf.MultiAgent{Socket: d.config.Socket.Path, Mode: m.Agent, JobNetworks: n != nil && n.JobNetworks}
	}
	path := cmp.Or(m.Path, filepath.Join(cniconf.NomadDir(d.config.ConfDirs), "00-"+m.Name+".conflist"))
	return &agent.Conflist{Path: path, Source: m.Source, Multi: multi, Metrics: d.metrics, Logger: d.log}
}

// cni does the work of the CNI plugin. The configured one is executed, and in a chroot else the one in
// the plugin directories. It is nil without a plugin in a chroot, and with the hook "noop".
func (d *Daemon) cni() agent.CNI {
	if d.config.Hook == hook.NoOp {
		return nil
	}
	path, chroot := d.config.CNI.Plugin, d.config.CNI.Chroot
	if filepath.Clean(chroot) == "/" { // chroot(2) is denied by the agent's systemd unit
		chroot = ""
	}
	for _, dir := range cniconf.PluginDirs(d.config.PluginDirs) {
		_, err := os.Lstat(filepath.Join(chroot, dir, agent.PluginName)) // a link leads to a file in the chroot
		if path == "" && err == nil {
			path = filepath.Join(dir, agent.PluginName)
		}
	}
	if path == "" && chroot != "" {
		return nil
	}
	p := &agent.Plugin{Path: path, Executed: d.config.CNI.Plugin != "", Chroot: chroot, Log: d.log}
	if d.nomad != nil && d.config.Nomad.JobNetworks {
		p.JobNetworks = d.nomad
	}
	return p
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// notReady lists what the agent waits for before it is ready.
func (d *Daemon) notReady() []string {
	var missing []string
	if !d.reconciler.FirstRoundDone() {
		missing = append(missing, "the first round of the reconciler is not complete")
	}
	if path := d.config.ReadyFile; path != "" && !exists(path) {
		missing = append(missing, fmt.Sprintf("%s does not exist", path))
	}
	if d.conflist != nil && !d.conflist.Written() {
		missing = append(missing, fmt.Sprintf("%s is not written yet", d.conflist.Path))
	}
	if d.pools != nil {
		missing = append(missing, d.pools.NotReady(context.Background())...)
		missing = append(missing, d.span.NotReady()...)
	}
	return missing
}
