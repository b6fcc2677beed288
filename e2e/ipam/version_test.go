// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// cnitool runs cnitool for the networks of a directory.
func cnitool(t *testing.T, confDir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(filepath.Join(sandbox.PluginDir(), "cnitool"), args...)
	cmd.Env = append(os.Environ(), "NETCONFPATH="+confDir, "CNI_PATH="+sandbox.PluginDir())
	out, err := cmd.CombinedOutput()
	t.Logf("cnitool %v: %v: %s", args, err, out)
	return string(out), err
}

// TestLongVersions: bridge and macvlan with both families, in each version of the specification.
func TestLongVersions(t *testing.T) {
	for name, plugin := range map[string]map[string]any{
		"bridge":  bridge,
		"macvlan": {"type": "macvlan", "master": "uplink"},
	} {
		for _, cniVersion := range version.All.SupportedVersions() {
			t.Run(name+" "+cniVersion, func(t *testing.T) {
				requireVersion(t, cniVersion, plugin)
			})
		}
	}
}

func requireVersion(t *testing.T, cniVersion string, plugin map[string]any) {
	p := newPool(t, map[string]any{"ranges": []any{map[string]any{"subnet": "10.60.0.0/24"}, map[string]any{"subnet": "fd60::/64"}}})
	dir, ns := t.TempDir(), namespace(t, "versions")
	sandbox.WriteFile(t, dir+"/10-net.conflist", p.network(cniVersion, "net", plugin))
	out, err := cnitool(t, dir, "add", "net", ns)
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := addressesIn(out)
	if err != nil || len(addresses) != 2 || len(p.leases()) != 2 {
		t.Fatalf("addresses %v, %v, leases %v, want two of both", addresses, err, p.leases())
	}
	if atLeast(t, cniVersion, "0.4.0") {
		if _, err := cnitool(t, dir, "check", "net", ns); err != nil {
			t.Error("CHECK fails")
		}
	}
	if atLeast(t, cniVersion, "1.1.0") {
		if _, err := cnitool(t, dir, "status", "net", ns); err != nil {
			t.Error("STATUS fails")
		}
	}
	for range 2 { // DEL may be repeated
		if _, err := cnitool(t, dir, "del", "net", ns); err != nil {
			t.Fatal("DEL fails")
		}
	}
}

func atLeast(t *testing.T, cniVersion, other string) bool {
	t.Helper()
	newer, err := version.GreaterThanOrEqualTo(cniVersion, other)
	if err != nil {
		t.Fatal(err)
	}
	return newer
}

// TestVerbs of the program itself.
func TestVerbs(t *testing.T) {
	p := newPool(t, map[string]any{"ranges": []any{map[string]any{"subnet": "10.60.0.0/29"}, map[string]any{"subnet": "fd60::/64"}}})
	first := p.mustAdd(call{id: "c1"})
	if again := p.mustAdd(call{id: "c1"}); !slices.Equal(first, again) {
		t.Errorf("ADD gives %v, and again %v", first, again)
	}
	second := p.mustAdd(call{id: "c2"})
	if first[0] == second[0] || first[1] == second[1] {
		t.Errorf("two containers have %v and %v", first, second)
	}
	result := map[string]any{"prevResult": map[string]any{"cniVersion": "1.1.0", "ips": []any{
		map[string]any{"address": first[0]}, map[string]any{"address": first[1]}, map[string]any{"address": "192.0.2.1/24"}}}}
	p.mustRun(call{verb: "CHECK", id: "c1", keys: result})
	if _, err := p.run(call{verb: "CHECK", id: "c2", keys: result}); err == nil {
		t.Error("CHECK of a container with the addresses of another passes")
	}
	p.mustRun(call{verb: "STATUS"})
	p.mustRun(call{verb: "DEL", id: "c2"})
	p.mustRun(call{verb: "DEL", id: "c2"})
	if _, err := p.run(call{verb: "CHECK", id: "c2"}); err == nil {
		t.Error("CHECK of a container without addresses passes")
	}
	p.mustRun(call{verb: "DEL", id: "c1"})
	for _, verb := range []string{"GC", "STATUS"} {
		_, err := p.run(call{verb: verb, version: "1.0.0"})
		requireCode(t, err, types.ErrIncompatibleCNIVersion)
	}
}

// TestInvalidConfiguration has the code that tells runtimes not to try again.
func TestInvalidConfiguration(t *testing.T) {
	p := newPool(t, map[string]any{"ranges": []any{map[string]any{"subnet": "10.60.0.0/29"}}, "cooldwn": "1s"})
	for _, verb := range []string{"ADD", "DEL", "CHECK", "GC", "STATUS"} {
		_, err := p.run(call{verb: verb, id: "c1"})
		requireCode(t, err, types.ErrInvalidNetworkConfig, "cooldwn")
	}
}
