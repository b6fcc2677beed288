// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
)

// router is a host with two networks, nat1 and nat2, that masquerade and publish ports.
// Behind it is a peer without a route to the addresses of allocations.
type router struct {
	*host
	engine *hook.Engine
}

// routerAddress is the address of the router towards the peer.
const (
	routerAddress = "192.0.2.1"
	peerAddress   = "192.0.2.2"
	beyond        = "/run/netns/beyond"
)

func newRouter(t *testing.T, backend string) *router {
	t.Helper()
	h := newHost(t)
	for i := 1; i <= 2; i++ {
		sandbox.WriteFile(t, fmt.Sprintf("%s/8%d-nat%[2]d.conflist", h.conf, i), fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "nat%[1]d", "plugins": [
			{"type": "bridge", "bridge": "nat%[1]d", "isGateway": true, "ipMasq": true, "ipMasqBackend": %[2]q,
			 "ipam": {"type": "host-local", "subnet": "10.96.%[1]d.0/24", "routes": [{"dst": "0.0.0.0/0"}]}},
			{"type": "portmap", "backend": %[2]q, "snat": true, "capabilities": {"portMappings": true}}]}`, i, backend))
	}
	sandbox.Warm(t, h.conf)
	h.before = sandbox.Snapshot(t)
	h.connectPeer()
	return &router{h, h.engine(func(c *hook.Config) { c.Cleaner = &cleanup.Cleaner{} })}
}

// connectPeer creates the peer, which answers a connection with the client's address.
func (h *host) connectPeer() {
	h.t.Helper()
	if _, err := netns.Create(netns.DefaultDir, filepath.Base(beyond)); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		sandbox.Run(h.t, "ip", "link", "del", "beyond0")
		sandbox.Run(h.t, "ip", "netns", "del", "beyond")
	})
	sandbox.Run(h.t, "ip", "link", "add", "beyond0", "type", "veth", "peer", "name", "eth0", "netns", "beyond")
	sandbox.Run(h.t, "ip", "address", "add", routerAddress+"/24", "dev", "beyond0")
	sandbox.Run(h.t, "ip", "link", "set", "beyond0", "up")
	sandbox.Run(h.t, "ip", "-n", "beyond", "address", "add", peerAddress+"/24", "dev", "eth0")
	sandbox.Run(h.t, "ip", "-n", "beyond", "link", "set", "eth0", "up")
	tellAddress(h.t, beyond, peerAddress+":80", net.Conn.RemoteAddr)
}

// sandbox creates a namespace in which port 80 answers with the address that the client
// connected to. Each interface answers ARP for its own address only: the host would
// otherwise store the MAC of another attachment for it.
func (r *router) sandbox(name string) string {
	r.t.Helper()
	path := r.namespace(name)
	tellAddress(r.t, path, ":80", net.Conn.LocalAddr)
	return path
}

// namespace makes a namespace in which nothing runs.
func (r *router) namespace(name string) string {
	r.t.Helper()
	path, err := netns.Create(netns.DefaultDir, name)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = netns.Remove(path) }) // some tests remove it
	sandbox.Run(r.t, "ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.all.arp_announce=2")
	return path
}

// tellAddress accepts connections in a namespace and writes an address to each one.
func tellAddress(t *testing.T, path, address string, tell func(net.Conn) net.Addr) {
	t.Helper()
	var listener net.Listener
	err := within(path, func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, tell(conn).(*net.TCPAddr).IP.String())
			_ = conn.Close()
		}
	}()
}

func within(path string, do func() error) error {
	ns, err := netns.Open(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	return ns.Do(do)
}

// patience is the time that a test waits for an answer.
const patience = 5 * time.Second

// ask connects from an address in a namespace and returns the answer.
func ask(path, from, to string) (told string, err error) {
	err = within(path, func() error {
		dialer := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := dialer.Dial("tcp4", to)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		text, err := io.ReadAll(conn)
		told = string(text)
		return err
	})
	return told, err
}

// ping sends an ICMP echo request from an address in a namespace and waits for
// the reply.
func ping(path, from, to string) error {
	return within(path, func() error {
		conn, err := net.DialIP("ip4:icmp", &net.IPAddr{IP: net.ParseIP(from)}, &net.IPAddr{IP: net.ParseIP(to)})
		if err != nil {
			return err
		}
		defer conn.Close()
		request := []byte{8, 0, 0x96, 0x92, 0x61, 0x6c, 0, 1} // type, code, checksum, identifier, number
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		if _, err := conn.Write(request); err != nil {
			return err
		}
		reply := make([]byte, 1500)
		for {
			n, _, err := conn.ReadFromIP(reply)
			if err != nil || n >= 8 && reply[0] == 0 && reply[4] == request[4] {
				return err
			}
		}
	})
}

// requireTraffic fails the test unless the gateway of an attachment answers, the peer
// sees the address of the router, and the published port leads to the attachment.
func (r *router) requireTraffic(path string, address netip.Prefix, port int) {
	r.t.Helper()
	from := address.Addr().String()
	if err := ping(path, from, address.Masked().Addr().Next().String()); err != nil {
		r.t.Errorf("%s to its gateway: %v", from, err)
	}
	if seen, err := ask(path, from, peerAddress+":80"); err != nil || seen != routerAddress {
		r.t.Errorf("%s to the peer: seen as %q, %v, want %s", from, seen, err, routerAddress)
	}
	if at, err := ask(beyond, peerAddress, fmt.Sprintf("%s:%d", routerAddress, port)); err != nil || at != from {
		r.t.Errorf("the peer to port %d: answered at %q, %v, want %s", port, at, err, from)
	}
}

// requireAll requires the traffic of all attachments of an allocation. Their interfaces
// are those that are given.
func (r *router) requireAll(id string, interfaces ...string) {
	r.t.Helper()
	a, err := r.engine.Status(context.Background(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	if len(a.Attachments) != len(interfaces) {
		r.t.Errorf("attached %s, want %v", names(a), interfaces)
	}
	for _, n := range a.Attachments {
		r.requireTraffic(a.Netns, n.Addresses[0], ports[n.Interface])
	}
	if _, err := r.engine.Check(context.Background(), id); err != nil {
		r.t.Error(err)
	}
}

// ports are the host ports that lead to an interface.
var ports = map[string]int{"net1": 8401, "net2": 8402, "net3": 8403, "data1": 8404, "eth0": 8405}

// natted selects a network with its port.
func natted(id, path string, elements ...string) hook.Request {
	request := hook.Request{ID: id, Netns: path}
	for _, text := range elements {
		network, iface := text[:4], text[5:]
		request.Networks = append(request.Networks, selection.Element{Name: network, Interface: iface, Ports: []string{iface}})
		request.Ports = append(request.Ports, portmap.Port{Label: iface, HostPort: ports[iface], To: 80, Protocol: "tcp"})
	}
	return request
}

func (r *router) setup(request hook.Request) {
	r.t.Helper()
	if _, err := r.engine.Setup(context.Background(), request); err != nil {
		r.t.Fatal(err)
	}
}

func (r *router) extend(request hook.Request) {
	r.t.Helper()
	if _, err := r.engine.Extend(context.Background(), request); err != nil {
		r.t.Fatal(err)
	}
}

func (r *router) detach(id, iface string) {
	r.t.Helper()
	if err := r.engine.Detach(context.Background(), id, iface); err != nil {
		r.t.Fatal(err)
	}
}

// another attaches a namespace to nat1 as another runtime does, under the
// allocation's ID, and returns its address and the DEL.
func (r *router) another(id, path string) (address netip.Prefix, del func()) {
	r.t.Helper()
	list, err := libcni.ConfListFromFile(r.conf + "/81-nat1.conflist")
	if err != nil {
		r.t.Fatal(err)
	}
	theirs := &runtime{r.host, libcni.NewCNIConfig([]string{sandbox.PluginDir()}, nil), list}
	c := &libcni.RuntimeConf{ContainerID: id, NetNS: path, IfName: "eth0", CapabilityArgs: map[string]any{
		"portMappings": []map[string]any{{"hostPort": ports["eth0"], "containerPort": 80, "protocol": "tcp"}},
	}}
	result := theirs.add(c)
	ones, _ := result.IPs[0].Address.Mask.Size()
	ip, _ := netip.AddrFromSlice(result.IPs[0].Address.IP)
	return netip.PrefixFrom(ip.Unmap(), ones), func() { theirs.del(c) }
}

// partial are operations on one attachment. The others have traffic after each.
var partial = map[string]func(r *router){
	"detach of one of two on a network": func(r *router) {
		path := r.sandbox("w1")
		r.setup(natted("w1", path, "nat1@net1"))
		r.requireAll("w1", "net1")
		r.extend(natted("w1", path, "nat1@data1"))
		r.requireAll("w1", "net1", "data1")
		r.detach("w1", "data1")
		r.requireAll("w1", "net1")
	},
	"detach of the older one": func(r *router) {
		path := r.sandbox("w1")
		r.setup(natted("w1", path, "nat1@net1", "nat1@net2"))
		r.requireAll("w1", "net1", "net2")
		r.extend(natted("w1", path, "nat1@data1"))
		r.detach("w1", "net1")
		r.requireAll("w1", "net2", "data1")
		r.detach("w1", "data1")
		r.requireAll("w1", "net2")
	},
	"a primary and one more on its network": func(r *router) {
		path := r.sandbox("w1")
		request := natted("w1", path, "nat1@eth0", "nat1@net1")
		request.Primary, request.Networks = &request.Networks[0], request.Networks[1:]
		r.setup(request)
		r.requireAll("w1", "eth0", "net1")
		r.extend(natted("w1", path, "nat1@data1"))
		r.detach("w1", "net1")
		r.requireAll("w1", "eth0", "data1")
	},
	"two networks": func(r *router) {
		path := r.sandbox("w1")
		r.extend(natted("w1", path, "nat1@net1", "nat2@net2"))
		r.requireAll("w1", "net1", "net2")
		r.extend(natted("w1", path, "nat2@data1"))
		r.detach("w1", "net2")
		r.requireAll("w1", "net1", "data1")
		r.detach("w1", "net1")
		r.requireAll("w1", "data1")
	},
	"both in one set-up, 20 times": func(r *router) {
		path := r.sandbox("w1")
		for range 20 {
			r.setup(natted("w1", path, "nat1@net1", "nat1@data1"))
			r.requireAll("w1", "net1", "data1")
			r.teardown("w1")
		}
	},
	"another runtime's, and a task's": func(r *router) {
		path := r.sandbox("w1")
		address, del := r.another("w1", path)
		defer del()
		request := natted("w1", path, "nat1@data1")
		request.Task = "net"
		r.extend(request)
		r.requireAll("w1", "data1")
		r.requireTraffic(path, address, ports["eth0"])
		if err := r.engine.Release(context.Background(), "w1", "net"); err != nil {
			r.t.Error(err)
		}
		r.requireTraffic(path, address, ports["eth0"])
		r.extend(request)
		r.detach("w1", "data1")
		r.requireTraffic(path, address, ports["eth0"])
	},
	"an attach that fails": func(r *router) {
		r.fake("fake", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"ADD": {Code: 7, Msg: "no such VLAN"}}})
		defer os.Remove(r.conf + "/90-fake.conflist") // other tests do not have this network
		path := r.sandbox("w1")
		r.setup(natted("w1", path, "nat1@net1", "nat2@net2"))
		request := natted("w1", path, "nat1@data1", "nat2@net3")
		request.Networks = append(request.Networks, selection.Element{Name: "fake", Interface: "fake0"})
		if _, err := r.engine.Extend(context.Background(), request); err == nil {
			r.t.Error("attached to the network that fails")
		}
		r.requireAll("w1", "net1", "net2")
	},
	"a DEL that fails": func(r *router) {
		path := r.sandbox("w1")
		r.setup(natted("w1", path, "nat1@net1", "nat1@net2", "nat2@net3"))
		r.ownPlugins()
		broken := r.host.engine(func(c *hook.Config) { c.Cleaner, c.PluginDirs = &cleanup.Cleaner{}, []string{r.plugins} })
		request := natted("w1", path, "nat1@data1")
		if _, err := broken.Extend(context.Background(), request); err != nil {
			r.t.Fatal(err)
		}
		r.breakPlugins(failing)
		if err := broken.Detach(context.Background(), "w1", "data1"); err != nil {
			r.t.Error(err)
		}
		r.requireAll("w1", "net1", "net2", "net3")
	},
	"cleanup of a dead allocation beside it": func(r *router) {
		r.setup(natted("w1", r.sandbox("w1"), "nat1@net1", "nat1@net2"))
		r.setup(natted("w2", r.namespace("w2"), "nat1@net3", "nat1@data1"))
		r.loseRecords("w2")
		r.loseCache("w2")
		sandbox.Run(r.t, "ip", "netns", "del", "w2")
		r.must("cleanup", "w2")
		r.requireAll("w1", "net1", "net2")
	},
}

func (r *router) teardown(id string) {
	r.t.Helper()
	if err := r.engine.Teardown(context.Background(), id); err != nil {
		r.t.Error(err)
	}
}

// TestTrafficOfTheRest: an operation on one attachment changes no traffic of others, be
// they of the same allocation, of another one, or of another runtime.
func TestTrafficOfTheRest(t *testing.T) { testTrafficOfTheRest(t, "iptables") }

// TestLongTrafficOfTheRest: so it is with nftables.
func TestLongTrafficOfTheRest(t *testing.T) { testTrafficOfTheRest(t, "nftables") }

func testTrafficOfTheRest(t *testing.T, backend string) {
	r := newRouter(t, backend)
	before := sandbox.Snapshot(t)
	for name, do := range partial {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { sandbox.RequireSame(t, before) })
			r := &router{r.on(t), r.engine}
			defer r.teardown("w1")
			do(r)
		})
	}
}
