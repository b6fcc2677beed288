// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package fakecni_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

func TestMain(m *testing.M) {
	fakecni.Main()
	os.Exit(sandbox.MainIfRoot(m.Run))
}

// TestRootLikeARealPlugin holds the fake to what libcni and a real plugin agree on,
// in every version of the specification.
func TestRootLikeARealPlugin(t *testing.T) {
	roottest.Require(t)
	t.Setenv("GORACE", "atexit_sleep_ms=0") // a second for each call otherwise
	dir := t.TempDir()
	fakecni.Install(t, dir)
	cni := libcni.NewCNIConfig([]string{dir, sandbox.PluginDir()}, nil)
	path, err := netns.Create(netns.DefaultDir, "fake")
	if err != nil {
		t.Fatal(err)
	}
	defer netns.Remove(path)
	ctx := context.Background()
	for _, version := range []string{"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"} {
		for name, plugins := range map[string]string{
			"real": `{"type": "bridge", "bridge": "br0", "ipam": {"type": "static", "addresses": [{"address": "10.0.0.1/24"}]}}`,
			"fake": `{"type": "fakecni"}`,
			"both": `{"type": "bridge", "bridge": "br0", "ipam": {"type": "static", "addresses": [{"address": "10.0.0.1/24"}]}}, {"type": "fakecni"}`,
		} {
			t.Run(version+" "+name, func(t *testing.T) {
				list, err := libcni.ConfListFromBytes([]byte(fmt.Sprintf(`{"cniVersion": %q, "name": "n", "plugins": [%s]}`, version, plugins)))
				if err != nil {
					t.Fatal(err)
				}
				rt := &libcni.RuntimeConf{ContainerID: "c", NetNS: path, IfName: "eth0"}
				if _, err := cni.ValidateNetworkList(ctx, list); err != nil {
					t.Error("VERSION:", err)
				}
				result, err := cni.AddNetworkList(ctx, list, rt)
				if err != nil || result.Version() != version {
					t.Fatal("ADD:", result, err)
				}
				if version > "0.3.1" {
					if err := cni.CheckNetworkList(ctx, list, rt); err != nil {
						t.Error("CHECK:", err)
					}
				}
				for range 2 {
					if err := cni.DelNetworkList(ctx, list, rt); err != nil {
						t.Error("DEL:", err)
					}
				}
				if err := cni.GetStatusNetworkList(ctx, list); err != nil {
					t.Error("STATUS:", err)
				}
				if err := cni.GCNetworkList(ctx, list, &libcni.GCArgs{}); err != nil {
					t.Error("GC:", err)
				}
			})
		}
	}
}

// TestRootNamespaceMissing: with CNI_NETNS empty, DEL succeeds, also repeated and without an
// ADD; ADD and CHECK are refused. The fake does as the real plugins do.
func TestRootNamespaceMissing(t *testing.T) {
	roottest.Require(t)
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	dir := t.TempDir()
	fakecni.Install(t, dir)
	cni := libcni.NewCNIConfigWithCacheDir([]string{dir, sandbox.PluginDir()}, t.TempDir(), nil)
	ipam := fmt.Sprintf(`"ipam": {"type": "host-local", "dataDir": %q, "subnet": "10.0.0.0/24"}`, t.TempDir())
	for name, plugins := range map[string]string{
		"fakecni": `{"type": "fakecni"}`,
		"bridge":  `{"type": "bridge", "bridge": "br1", "isGateway": true, "ipMasq": true, ` + ipam + `}`,
		"ptp":     `{"type": "ptp", "ipMasq": true, ` + ipam + `}`,
		"macvlan": `{"type": "macvlan", "master": "uplink", ` + ipam + `}`,
		"chained": `{"type": "bridge", "bridge": "br2", ` + ipam + `}, {"type": "fakecni"}, {"type": "firewall"},
			{"type": "bandwidth", "ingressRate": 1000000, "ingressBurst": 1000000},
			{"type": "tuning", "mtu": 1400}, {"type": "portmap", "snat": true, "capabilities": {"portMappings": true}}`,
	} {
		t.Run(name, func(t *testing.T) {
			list, err := libcni.ConfListFromBytes([]byte(fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "n", "plugins": [%s]}`, plugins)))
			if err != nil {
				t.Fatal(err)
			}
			path, err := netns.Create(netns.DefaultDir, "fake")
			if err != nil {
				t.Fatal(err)
			}
			defer netns.Remove(path)
			rt := &libcni.RuntimeConf{ContainerID: "c", NetNS: path, IfName: "eth0", CapabilityArgs: map[string]any{
				"portMappings": []map[string]any{{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}},
			}}
			if _, err := cni.AddNetworkList(t.Context(), list, rt); err != nil {
				t.Fatal("ADD:", err)
			}
			if err := netns.Remove(path); err != nil {
				t.Fatal(err)
			}
			rt.NetNS = ""
			_, add := cni.AddNetworkList(t.Context(), list, rt)
			for verb, err := range map[string]error{"ADD": add, "CHECK": cni.CheckNetworkList(t.Context(), list, rt)} {
				var refused *types.Error
				if !errors.As(err, &refused) || refused.Code != types.ErrInvalidEnvironmentVariables {
					t.Errorf("%s: %v, want code %d", verb, err, types.ErrInvalidEnvironmentVariables)
				}
			}
			for n := range 2 {
				if err := cni.DelNetworkList(t.Context(), list, rt); err != nil {
					t.Errorf("DEL, call %d: %v", n+1, err)
				}
			}
			rt.ContainerID = "another"
			if err := cni.DelNetworkList(t.Context(), list, rt); err != nil {
				t.Error("DEL without an ADD:", err)
			}
		})
	}
}
