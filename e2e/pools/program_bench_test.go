// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pools

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/connect"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/plugin"
	"github.com/allocnet/allocnet/internal/leases"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// program is an IPAM plugin as a runtime executes it.
type program struct {
	name   string
	config []byte
	// took are the calls by verb, and cpu is the time of their processes.
	took, cpu map[string]times
}

func newProgram(name, keys string) *program {
	config := fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "net", "type": "bridge", "ipam": {"type": %q, %s}}`, name, keys)
	return &program{name, config, map[string]times{}, map[string]times{}}
}

// path is the program's. That of allocnet-ipam is built as it is released.
func (p *program) path() string { return filepath.Join(sandbox.PluginDir(), p.name) }

// call executes the program for an attachment.
func (p *program) call(b *testing.B, verb string) {
	b.Helper()
	cmd := exec.Command(p.path())
	cmd.Stdin = bytes.NewReader(p.config)
	cmd.Env = []string{"CNI_COMMAND=" + verb, "CNI_CONTAINERID=3f1c2b9e-5f0b-4c55-9d3b-aaaaaaaaaaaa", "CNI_IFNAME=eth0", "CNI_NETNS=/run/netns/a", "CNI_PATH=/none"}
	begun := time.Now()
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("%s %s: %v: %s", p.name, verb, err, out)
	}
	took, cpu := p.took[verb], p.cpu[verb]
	took.add(begun)
	cpu = append(cpu, float64(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())/float64(time.Millisecond))
	p.took[verb], p.cpu[verb] = took, cpu
}

// both is the sum of the medians of ADD and DEL.
func both(took map[string]times) float64 {
	return took["ADD"].quantile(0.5) + took["DEL"].quantile(0.5)
}

// BenchmarkIPAMPrograms compares allocnet-ipam on a host with blocks with host-local: ADD and
// DEL of an attachment beside others, and VERSION. They come in turn within each iteration; the
// figures are medians.
func BenchmarkIPAMPrograms(b *testing.B) {
	for _, others := range []int{0, 1000} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			programs := []*program{ownProgram(b, others), hostLocal(b, others)}
			for round := 0; b.Loop(); round++ {
				for _, verb := range []string{"ADD", "DEL", "VERSION"} {
					for at := range programs {
						programs[(at+round)%2].call(b, verb) // none is always first
					}
				}
			}
			for _, p := range programs {
				for verb, name := range map[string]string{"ADD": "add", "DEL": "del", "VERSION": "version"} {
					b.ReportMetric(p.took[verb].quantile(0.5), p.name+"-"+name+"-ms")
					b.ReportMetric(p.cpu[verb].quantile(0.5), p.name+"-"+name+"-cpu-ms")
				}
			}
			b.ReportMetric(both(programs[0].took)/both(programs[1].took), "add+del/host-local")
			b.ReportMetric(both(programs[0].cpu)/both(programs[1].cpu), "add+del-cpu/host-local")
			b.ReportMetric(megabytes(b, programs[0].path()), "allocnet-ipam-MB")
			b.ReportMetric(0, "ns/op") // the sum of both has no meaning
		})
	}
}

func megabytes(b *testing.B, path string) float64 {
	b.Helper()
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	return float64(info.Size()) / 1e6
}

// other is the name of one of the containers beside the measured one.
func other(i int) string { return fmt.Sprintf("3f1c2b9e-5f0b-4c55-9d3b-%012d", i) }

// ownProgram returns allocnet-ipam on a host of its own, where others have addresses, and all
// blocks are claimed.
func ownProgram(b *testing.B, others int) *program {
	b.Helper()
	p := newProgram(sandbox.OwnIPAM, fmt.Sprintf(`"pool": "p", "ranges": [{"subnet": "10.2.0.0/16"}], "cooldown": "0s",
		"dataDir": "%[1]s/leases", "stateDir": "%[1]s/state", "configDir": "%[1]s/none"`, b.TempDir()))
	inProcess := plugin.Plugin{Connect: func(c *ipam.Config) plugin.Connection { return connect.New(c.ConfigDir, c.StateDir) }}
	for i := range others {
		if _, err := inProcess.Add(b.Context(), plugin.Call{ContainerID: other(i), Interface: "eth0", Config: p.config}); err != nil {
			b.Fatal(err)
		}
	}
	p.call(b, "ADD") // may claim a block
	p.call(b, "DEL")
	p.took, p.cpu = map[string]times{}, map[string]times{}
	return p
}

// hostLocal returns the reference plugin on a host of its own, where others have addresses.
func hostLocal(b *testing.B, others int) *program {
	b.Helper()
	dir := b.TempDir()
	store, err := leases.Open(b.Context(), dir, "net")
	if err != nil {
		b.Fatal(err)
	}
	for i := range others {
		if _, err := store.Reserve(other(i), "eth0", net.IPv4(10, 2, byte((i+2)/256), byte((i+2)%256)), "0"); err != nil {
			b.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
	return newProgram("host-local", fmt.Sprintf(`"ranges": [[{"subnet": "10.2.0.0/16"}]], "dataDir": %q`, dir))
}
