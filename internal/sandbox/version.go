// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"github.com/containernetworking/cni/pkg/version"
)

// The first versions of the CNI plugins with what tests depend on.
const (
	// InnerMaster: macvlan, ipvlan and vlan have linkInContainer.
	InnerMaster = "1.3.0"
	// CheckOfPorts: portmap looks for the rules of an address in the tables of its family
	// alone. Nomad calls CHECK from this version of bridge on.
	CheckOfPorts = "1.3.0"
	// Specification11: they have version 1.1.0 of the specification.
	Specification11 = "1.6.0"
	// NftablesBackend: bridge, ptp and portmap have it.
	NftablesBackend = "1.6.0"
)

var pluginVersion = sync.OnceValue(func() string {
	out, _ := exec.Command(filepath.Join(PluginDir(), "bridge")).CombinedOutput() // its exit code differs
	if match := regexp.MustCompile(`v(\d+\.\d+\.\d+)`).FindSubmatch(out); match != nil {
		return string(match[1])
	}
	return ""
})

// PluginsHave reports whether the CNI plugins have what a version was the first to have.
func PluginsHave(t testing.TB, since string) bool {
	t.Helper()
	newer, err := version.GreaterThanOrEqualTo(pluginVersion(), since)
	if err != nil {
		t.Fatalf("the CNI plugins have no version: run: make tools: %v", err)
	}
	return newer
}
