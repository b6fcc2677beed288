// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/allocnet/allocnet/cniconf"
)

// plugins reports missing plugins, and those that lack a version of the CNI
// specification, of networks that are executed by plugins.
func (d *Doctor) plugins(ctx context.Context, r *Report, networks []network) {
	networks = d.byPlugins(networks)
	dirs := cniconf.PluginDirs(d.PluginDirs)
	if !anyProgram(dirs) {
		if len(networks) == 0 {
			return
		}
		problem := "there are no CNI plugins"
		for _, n := range networks {
			problem += d.why(n)
		}
		r.addError(strings.Join(dirs, " "), problem, "correct the networks, or install the reference plugins, such as the Debian package containernetworking-plugins, or set --plugin-dir to their directory")
		return
	}
	versionSkew(ctx, r, dirs)
	cni := libcni.NewCNIConfig(dirs, nil)
	supported := map[string][]string{}
	for _, n := range networks {
		lacking := map[string]string{}
		if m, ok := errors.AsType[*cniconf.MissingPluginError](n.CheckPlugins(dirs)); ok {
			lacking = m.Missing
		}
		d.lacking(r, n, lacking, dirs)
		for _, name := range n.PluginTypes() {
			if _, gone := lacking[name]; gone || supported[name] != nil {
				continue
			}
			info, err := cni.GetVersionInfo(ctx, name)
			if err != nil {
				r.addError(name, "plugin fails at VERSION: "+err.Error(), "reinstall "+name)
				supported[name] = []string{}
				continue
			}
			supported[name] = info.SupportedVersions()
			tooOld(r, name, supported[name])
		}
		unsupported(r, n, supported)
	}
}

func (d *Doctor) byPlugins(networks []network) []network {
	if d.WhyPlugins == nil {
		return networks
	}
	return slices.DeleteFunc(slices.Clone(networks), func(n network) bool { return d.WhyPlugins(n.Network) == nil })
}

// lacking reports the plugins that a network lacks, after why they are needed.
func (d *Doctor) lacking(r *Report, n network, lacking map[string]string, dirs []string) {
	if len(lacking) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(lacking))
	var problems []string
	for _, name := range names {
		problems = append(problems, fmt.Sprintf("plugin %q %s", name, lacking[name]))
	}
	problem, fix := strings.Join(problems, ", "), fmt.Sprintf("install %s into one of %s", strings.Join(names, ", "), strings.Join(dirs, ", "))
	if d.WhyPlugins != nil {
		problem, fix = fmt.Sprintf("%v; therefore its plugins are executed: %s", d.WhyPlugins(n.Network), problem), "correct the network, or "+fix
	}
	r.addError(n.Path, fmt.Sprintf("network %q: %s", n.Name, problem), fix)
}

// why tells why a network is executed by its plugins, which may be a mistake in its configuration.
func (d *Doctor) why(n network) string {
	if d.WhyPlugins == nil {
		return ""
	}
	return fmt.Sprintf("; allocnet does not execute network %q itself: %v", n.Name, d.WhyPlugins(n.Network))
}

// tooOld reports a plugin without the operations of newer CNI versions.
func tooOld(r *Report, name string, versions []string) {
	newest := "0.0.0"
	for _, v := range versions {
		if newer, err := version.GreaterThan(v, newest); err == nil && newer {
			newest = v
		}
	}
	lacks := func(since string) bool {
		enough, err := version.GreaterThanOrEqualTo(newest, since)
		return err == nil && !enough
	}
	switch {
	case lacks("0.4.0"):
		r.addError(name, fmt.Sprintf("plugin supports CNI up to %s: it has no CHECK, GC and STATUS", newest), "install a newer "+name)
	case lacks("1.1.0"):
		r.addWarning(name, fmt.Sprintf("plugin supports CNI up to %s: it has no GC and STATUS", newest), "install a newer "+name)
	}
}

// unsupported reports plugins that do not support the network's cniVersion.
func unsupported(r *Report, n network, supported map[string][]string) {
	for _, name := range n.PluginTypes() {
		versions := supported[name]
		if len(versions) > 0 && !slices.Contains(versions, n.List.CNIVersion) {
			r.addError(n.Path, fmt.Sprintf("network %q: plugin %s does not support cniVersion %s, only %s", n.Name, name, n.List.CNIVersion, strings.Join(versions, ", ")),
				"use one of these, or install a newer "+name)
		}
	}
}
