// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package fakecni_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

func TestMain(m *testing.M) {
	fakecni.Main()
	os.Exit(sandbox.Main(m.Run))
}

// TestLikeARealPlugin holds the fake to what libcni and a real plugin agree on,
// in every version of the specification.
func TestLikeARealPlugin(t *testing.T) {
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
