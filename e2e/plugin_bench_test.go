// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/internal/lab"
)

// BenchmarkPlugin compares allocnet-cni, which a runtime executes, with libcni
// calling the same networks' plugins at once. What it takes more is its own
// time. The figures are medians.
func BenchmarkPlugin(b *testing.B) {
	conf := lab.WriteConf(b)
	lab.Warm(b, conf)
	plain := lab.NewPlain(b, conf)
	subjects := []subject{{"parallel", plain.AddParallel, plain.DelParallel}, pluginSubject(b, conf)}
	for _, k := range []int{1, 3} {
		b.Run(fmt.Sprintf("k=%d", k), func(b *testing.B) {
			var adds, dels [2][]float64
			for b.Loop() {
				for i, s := range subjects {
					add, del := measure(b, s, k)
					adds[i], dels[i] = append(adds[i], add), append(dels[i], del)
				}
			}
			for i, s := range subjects {
				b.ReportMetric(median(adds[i]), s.name+"-add-ms")
				b.ReportMetric(median(dels[i]), s.name+"-del-ms")
			}
			b.ReportMetric(median(adds[1])-median(adds[0]), "own-add-ms")
			b.ReportMetric(median(dels[1])-median(dels[0]), "own-del-ms")
			b.ReportMetric(0, "ns/op") // of both together it says nothing
		})
	}
}

// pluginSubject is allocnet-cni as make build makes it.
func pluginSubject(b *testing.B, conf string) subject {
	b.Helper()
	dir := b.TempDir()
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", filepath.Join(dir, "allocnet-cni"), "../cmd/allocnet-cni")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	list, err := libcni.NetworkConfFromBytes([]byte(fmt.Sprintf(
		`{"cniVersion": "1.0.0", "name": "multi", "plugins": [{"type": "allocnet-cni", "primary": "web", "capabilities": {"portMappings": true}, "confDir": %q, "stateDir": %q}]}`,
		conf, b.TempDir())))
	if err != nil {
		b.Fatal(err)
	}
	cni := libcni.NewCNIConfig([]string{dir, lab.PluginDir()}, nil)
	runtimeConf := func(k int, id, path string) *libcni.RuntimeConf {
		extra := []string{"storage", "peer"}
		return &libcni.RuntimeConf{ContainerID: id, NetNS: path, IfName: "eth0",
			Args:           [][2]string{{"networks", strings.Join(extra[:k-1], ",")}},
			CapabilityArgs: map[string]any{"portMappings": []map[string]any{{"hostPort": 4000, "containerPort": 80, "protocol": "tcp"}}}}
	}
	return subject{"plugin",
		func(k int, id, path string) error {
			_, err := cni.AddNetworkList(context.Background(), list, runtimeConf(k, id, path))
			return err
		},
		func(k int, id, path string) error {
			return cni.DelNetworkList(context.Background(), list, runtimeConf(k, id, path))
		},
	}
}
