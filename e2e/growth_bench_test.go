// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	cpus "runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
)

// extraNetworks are those of benchConf after the primary.
var extraNetworks = []string{"net1", "net2", "net3", "net4"}

// benchConf writes a CNI configuration directory with five bridges. The first, web, has
// masquerade and publishes ports, with rules of the backend. All have IPv4 addresses alone.
func benchConf(b *testing.B, backend, ipv6 string) string {
	b.Helper()
	dir := b.TempDir()
	sandbox.WriteFile(b, filepath.Join(dir, "10-web.conflist"), fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "web", "allocnet": {"ipv6": %[2]q}, "plugins": [
		{"type": "bridge", "bridge": "bench0", "isGateway": true, "ipMasq": true, "ipMasqBackend": %[1]q,
		 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.100.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
		{"type": "portmap", "backend": %[1]q, "snat": true, "capabilities": {"portMappings": true}}]}`, backend, ipv6))
	for i, name := range extraNetworks {
		sandbox.WriteFile(b, filepath.Join(dir, fmt.Sprintf("2%d-%s.conflist", i, name)), fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %[1]q, "allocnet": {"ipv6": %[2]q}, "plugins": [
		{"type": "bridge", "bridge": "br-%[1]s", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.%[3]d.0.0/16"}]]}}]}`, name, ipv6, 101+i))
	}
	return dir
}

// BenchmarkGrowth measures one more allocation of three networks on a host with others, with the link-local IPv6 of all of them and
// without.
func BenchmarkGrowth(b *testing.B) {
	for _, on := range [][2]string{
		{"iptables", policy.IPv6Off}, {"iptables", policy.IPv6LinkLocal}, {"nftables", policy.IPv6Off}, {"nftables", policy.IPv6LinkLocal},
	} {
		backend := on[0] + "/ipv6=" + on[1]
		b.Run(backend, func(b *testing.B) {
			p := newPeers(b, benchConf(b, on[0], on[1]))
			others := newOthers(b, p)
			subjects := []subject{p.plugin(b, "allocnet", ""), p.plugin(b, "plugins", `, "executor": "plugins"`)}
			var firstAdd, firstDel float64
			for _, n := range []int{0, 100, 300, 1000} {
				b.Run(fmt.Sprintf("others=%d", n), func(b *testing.B) {
					others.grow(b, n)
					settle(b)
					adds, dels := compare(b, subjects, 3)
					if n == 0 {
						firstAdd, firstDel = adds[0], dels[0]
					}
					b.ReportMetric(adds[0]/firstAdd, "add/first")
					b.ReportMetric(dels[0]/firstDel, "del/first")
				})
			}
			others.grow(b, 0)
		})
	}
}

// settle waits until the host is idle: for up to a minute the kernel floods the multicast
// queries of bridges to all their new ports.
func settle(b *testing.B) {
	b.Helper()
	for range 90 {
		before := cpuTicks(b)
		time.Sleep(time.Second)
		if cpuTicks(b)-before < ticksPerSecond*cpus.NumCPU()/10 {
			return
		}
	}
	b.Log("the host is busy")
}

// ticksPerSecond are those of one processor in /proc/stat (USER_HZ).
const ticksPerSecond = 100

// cpuTicks returns how long all processors have worked since the boot.
func cpuTicks(b *testing.B) (busy int) {
	b.Helper()
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		b.Fatal(err)
	}
	line, _, _ := strings.Cut(string(data), "\n")
	for i, field := range strings.Fields(line)[1:] {
		ticks, err := strconv.Atoi(field)
		if err != nil {
			b.Fatal(err)
		}
		if i != 3 && i != 4 && i < 8 { // idle, iowait, and what guests have had of user
			busy += ticks
		}
	}
	return busy
}

// others are allocations of three networks that share the host.
type others struct {
	engine *hook.Engine
	n      int
}

func newOthers(b *testing.B, p *peers) *others {
	b.Helper()
	engine, err := hook.NewEngine(hook.Config{ConfDirs: []string{p.conf}, PluginDirs: []string{sandbox.PluginDir()}, StateDir: p.state})
	if err != nil {
		b.Fatal(err)
	}
	return &others{engine: engine}
}

// grow attaches or detaches until there are n.
func (o *others) grow(b *testing.B, n int) {
	b.Helper()
	var group errgroup.Group
	group.SetLimit(16)
	for i := o.n; i < n; i++ {
		group.Go(func() error {
			_, err := o.engine.Setup(context.Background(), hook.Request{
				ID: fmt.Sprintf("other-%d", i), Primary: &selection.Element{Name: "web"},
				Networks: []selection.Element{{Name: "net1"}, {Name: "net2"}},
				Ports:    []portmap.Port{{Label: "http", HostPort: 20000 + i, To: 80, Protocol: "tcp"}},
			})
			return err
		})
	}
	for i := n; i < o.n; i++ {
		group.Go(func() error { return o.engine.Teardown(context.Background(), fmt.Sprintf("other-%d", i)) })
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	o.n = n
}
