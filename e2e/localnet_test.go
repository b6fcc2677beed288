// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestLoopbackServices: publishing a port lets connections from the host's 127.0.0.1 out to allocations, and none from these
// in to services that listen there. A task routes 127.0.0.1 to the host for that.
func TestLoopbackServices(t *testing.T) {
	for _, backend := range []string{"iptables", "nftables"} {
		t.Run(backend, func(t *testing.T) {
			hasTable := exec.Command("nft", "list", "table", "ip", "cni_hostport").Run() == nil
			h := newHost(t)
			sandbox.WriteFile(t, h.conf+"/16-local.conflist", fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "local", "plugins": [
				{"type": "bridge", "bridge": "web0", "isGateway": true, "ipam": {"type": "host-local", "subnet": "10.88.0.0/16", "rangeStart": "10.88.201.1", "dataDir": "/run/local"}},
				{"type": "portmap", "backend": %q, "capabilities": {"portMappings": true}}]}`, backend))
			listener, err := net.Listen("tcp", "127.0.0.1:4646")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			task := h.attach("task", "--primary", "local")
			h.attach("open", "--primary", "local", "--publish", "8320:80")
			serve(t, "/run/netns/open", ":80", "open here")
			requireAnswer(t, "http://127.0.0.1:8320", "open here")
			sandbox.Run(t, "sh", "-ec", `ip netns exec task sysctl -qw net.ipv4.conf.all.route_localnet=1
				ip -n task addr del 127.0.0.1/8 dev lo; ip -n task route add 127.0.0.1/32 via 10.88.0.1 dev eth0`)
			ns, err := netns.Open("/run/netns/task")
			if err != nil {
				t.Fatal(err)
			}
			defer ns.Close()
			local := &net.TCPAddr{IP: task.Attachments[0].Addresses[0].Addr().AsSlice()}
			err = ns.Do(func() error {
				conn, err := (&net.Dialer{LocalAddr: local, Timeout: 500 * time.Millisecond}).Dial("tcp", "127.0.0.1:4646")
				if err == nil {
					_ = conn.Close()
				}
				return err
			})
			if err == nil {
				t.Error("the task reaches a service that listens on the host's 127.0.0.1")
			}
			for _, id := range []string{"task", "open"} {
				h.must("check", id)
				h.must("detach", id)
			}
			sandbox.Run(t, "rm", "-r", "/run/local")
			if backend == "nftables" && !hasTable {
				sandbox.Run(t, "nft", "delete", "table", "ip", "cni_hostport") // the plugin leaves it
			}
		})
	}
}
