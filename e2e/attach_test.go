// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/state"
)

const fiveNetworks = `[
	{"name": "storage", "mtu": 1400},
	{"name": "peer", "interface": "sip0"},
	{"name": "vlan"},
	{"name": "fixed", "ips": ["10.92.0.9/16"], "mac": "02:00:00:00:00:09"}]`

func TestFiveNetworks(t *testing.T) {
	h := newHost(t)
	a := h.attach("a1", "--primary", "web", "--networks", fiveNetworks, "--publish", "http=8080:80/tcp")

	var interfaces []string
	for _, n := range a.Attachments {
		interfaces = append(interfaces, n.Network+"="+n.Interface)
	}
	if want := []string{"web=eth0", "storage=net1", "peer=sip0", "vlan=net3", "fixed=net4"}; !slices.Equal(interfaces, want) {
		t.Errorf("attached %v, want %v", interfaces, want)
	}
	requireInside(t, a)
	routes := sandbox.Run(t, "ip", "netns", "exec", "a1", "ip", "route")
	if !strings.HasPrefix(routes, "default via 10.88.0.1 dev eth0") || strings.Count(routes, "default") != 1 {
		t.Errorf("routes inside:\n%s", routes)
	}
	serve(t, a.Netns, ":80", "a1 here")
	for _, url := range []string{"http://127.0.0.1:8080", "http://10.88.0.1:8080", "http://" + a.Attachments[2].Addresses[0].Addr().String()} {
		if text, err := get(url); err != nil || text != "a1 here" {
			t.Errorf("%s answers %q, %v", url, text, err)
		}
	}
	h.must("check", "a1")
	requireStatus(t, h.must("status", "a1", "--json"))
	h.must("detach", "a1")
}

// requireInside compares the attachments that allocnet reports with the interfaces in the
// namespace.
func requireInside(t *testing.T, a *hook.Allocation) {
	t.Helper()
	ns, err := netns.Open(a.Netns)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	inside, err := ns.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range a.Attachments {
		at := slices.IndexFunc(inside, func(i netns.Interface) bool { return i.Name == n.Interface })
		if at < 0 {
			t.Errorf("%s is not in the namespace", n.Interface)
			continue
		}
		i := inside[at]
		if i.MAC != n.MAC || i.MTU != n.MTU || !slices.Equal(i.Addresses, n.Addresses) {
			t.Errorf("%s: reported %s %d %v, has %s %d %v", n.Interface, n.MAC, n.MTU, n.Addresses, i.MAC, i.MTU, i.Addresses)
		}
	}
	fixed, storage := a.Attachments[4], a.Attachments[1]
	if fixed.MAC != "02:00:00:00:00:09" || fixed.Addresses[0].String() != "10.92.0.9/16" {
		t.Errorf("fixed has %s %v, not what was asked for", fixed.MAC, fixed.Addresses)
	}
	if storage.MTU != 1400 || len(storage.Addresses) != 2 {
		t.Errorf("storage has MTU %d and addresses %v, want 1400, and one of each family", storage.MTU, storage.Addresses)
	}
}

// requireStatus compares network-status.json with the schema of the Network Plumbing
// Working Group: its keys, and addresses without prefix length.
func requireStatus(t *testing.T, text string) {
	t.Helper()
	var status struct {
		NetworkStatus []map[string]any `json:"networkStatus"`
	}
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		t.Fatal(err)
	}
	first := status.NetworkStatus[0]
	if first["name"] != "web" || first["interface"] != "eth0" || first["default"] != true || first["mtu"] != 1500.0 ||
		strings.Contains(first["ips"].([]any)[0].(string), "/") || first["gateway"].([]any)[0] != "10.88.0.1" {
		t.Errorf("network-status of the primary: %v", first)
	}
	if _, ok := status.NetworkStatus[1]["default"]; ok || len(status.NetworkStatus) != 5 {
		t.Errorf("network-status: %v", status.NetworkStatus)
	}
}

func TestGivenNamespace(t *testing.T) {
	h := newHost(t)
	path, err := netns.Create(netns.DefaultDir, "given")
	if err != nil {
		t.Fatal(err)
	}
	defer netns.Remove(path)
	a := h.attach("b1", "--netns", path, "--networks", "storage,peer@net5")
	if a.Attachments[0].Interface != "net1" || a.Attachments[1].Interface != "net5" || a.Attachments[0].Primary {
		t.Errorf("attached %+v", a.Attachments)
	}
	h.refuse(2, []string{`interface net5 exists already in ` + path, `network "storage"`}, "attach", "b2", "--netns", path, "--networks", "storage@net5")
	h.must("detach", "b1")
	if _, err := os.Stat(path); err != nil {
		t.Errorf("detach removed a namespace that it did not make: %v", err)
	}
	if err := netns.Remove(path); err != nil {
		t.Error(err)
	}
}

// TestRunOfExisting: run has an allocation of its own, which it removes at the end. It
// neither takes nor removes one that another command has set up with the same networks.
func TestRunOfExisting(t *testing.T) {
	h := newHost(t)
	h.attach("e1", "--primary", "web")
	h.refuse(2, []string{"allocation e1 is set up already"}, "run", "--id", "e1", "--primary", "web", "--", "true")
	h.must("check", "e1")
	h.must("detach", "e1")
}

func TestDefaultRoute(t *testing.T) {
	h := newHost(t)
	a := h.attach("r1", "--primary", "web", "--networks", `[{"name": "storage", "default-route": ["10.89.0.1"]}]`)
	if routes := sandbox.Run(t, "ip", "netns", "exec", "r1", "ip", "route", "show", "default"); routes != "default via 10.89.0.1 dev net1 \n" {
		t.Errorf("default routes: %q", routes)
	}
	if len(a.Attachments[0].Gateways) != 0 || len(a.Attachments[1].Gateways) != 1 {
		t.Errorf("gateways are %v and %v", a.Attachments[0].Gateways, a.Attachments[1].Gateways)
	}
	h.must("check", "r1") // CHECK of the plugins gets the results with the new default route
	h.must("detach", "r1")
}

// TestSeveralDefaultRoutes attaches three networks that each bring a default route.
func TestSeveralDefaultRoutes(t *testing.T) {
	h := newHost(t)
	for _, name := range []string{"out1", "out2"} {
		sandbox.WriteFile(t, h.conf+"/80-"+name+".conflist", fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %q, "plugins": [
			{"type": "bridge", "bridge": "storage0", "ipam": {"type": "host-local", "dataDir": "/run/out-leases", "ranges": [[{"subnet": "10.9%s.0.0/16"}], [{"subnet": "fd00:9%s::/64"}]],
			 "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}}]}`, name, name[3:], name[3:]))
	}
	defer os.RemoveAll("/run/out-leases")
	a := h.attach("w1", "--primary", "web", "--networks", "out1,out2")
	if routes := sandbox.Run(t, "ip", "-n", "w1", "route", "show", "default"); routes != "default via 10.88.0.1 dev eth0 \n" {
		t.Errorf("IPv4 goes out by %q, want the primary", routes)
	}
	if routes := sandbox.Run(t, "ip", "-n", "w1", "-6", "route", "show", "default"); !strings.HasPrefix(routes, "default via fd00:91::1 dev net1") || strings.Count(routes, "dev") != 1 {
		t.Errorf("IPv6 goes out by %q, want the first that has a way", routes)
	}
	if len(a.Attachments[0].Gateways) != 1 || len(a.Attachments[1].Gateways) != 1 || len(a.Attachments[2].Gateways) != 0 {
		t.Errorf("gateways %v", a.Attachments)
	}
	h.must("check", "w1")
	h.must("detach", "w1")
}

// TestCheck: check finds manual changes. It is no error that a bridge without an address
// changes its MAC with its ports.
func TestCheck(t *testing.T) {
	h := newHost(t)
	a := h.attach("k1", "--primary", "web", "--networks", "storage")
	for _, link := range append(hostEnds(t), "storage0") { // as udev does
		sandbox.Run(t, "ip", "link", "set", link, "address", newMAC(link))
		h.must("check", "k1")
	}
	h.must("repair", "--dry-run", "k1")
	address := a.Attachments[1].Addresses[0].String()
	for _, change := range [][2]string{ // check reports the last one
		{"addr del " + address + " dev net1", "address " + address + " of net1"},
		{"link set net1 down", "interface net1 is down"},
		{"link set eth0 address 02:00:00:00:00:01", "MAC of eth0 is 02:00:00:00:00:01"},
	} {
		sandbox.Run(t, append([]string{"ip", "-n", "k1"}, strings.Fields(change[0])...)...)
		h.refuse(1, []string{"check network", change[1]}, "check", "k1")
	}
	h.must("detach", "k1")
}

// hostEnds returns the host's ends of veth pairs.
func hostEnds(t *testing.T) (names []string) {
	for line := range strings.Lines(sandbox.Run(t, "ip", "-o", "link", "show", "type", "veth")) {
		if _, name, _ := strings.Cut(line, ": "); strings.HasPrefix(name, "veth") {
			names = append(names, name[:strings.IndexAny(name, "@:")])
		}
	}
	return names
}

// newMAC returns one for a link.
func newMAC(link string) string {
	sum := sha256.Sum256([]byte(link))
	return fmt.Sprintf("02:%x:%x:%x:%x:%x", sum[0], sum[1], sum[2], sum[3], sum[4])
}

// TestOneNetworkTwice: the bridge plugin has one masquerade chain for both.
func TestOneNetworkTwice(t *testing.T) {
	h := newHost(t)
	a := h.attach("t1", "--primary", "web", "--networks", "web@net1,storage,storage")
	if len(a.Attachments) != 4 || a.Attachments[0].Addresses[0] == a.Attachments[1].Addresses[0] {
		t.Errorf("attached %+v", a.Attachments)
	}
	h.must("detach", "t1")
}

func TestSetupAgain(t *testing.T) {
	h := newHost(t)
	args := []string{"s1", "--primary", "storage", "--networks", "vlan"}
	first := h.attach(args...)
	again := h.attach(args...)
	if first.Attachments[0].MAC != again.Attachments[0].MAC {
		t.Error("the same request attached anew")
	}
	h.refuse(2, []string{"different request", "adds web@eth0", "lacks storage@eth0, vlan@net1"}, "attach", "s1", "--primary", "web")
	h.refuse(2, []string{"adds web@net2", "allocnet attach s1 --networks web"}, "attach", "s1", "--primary", "storage", "--networks", "vlan,web")
	h.refuse(2, []string{"cannot be mapped"}, "attach", "s2", "--primary", "web", "--publish", "[::1]:8090:80")
	other, err := netns.Create(netns.DefaultDir, "other")
	if err != nil {
		t.Fatal(err)
	}
	defer netns.Remove(other)
	h.refuse(2, []string{"different request", "the request names " + other}, append([]string{"attach", "--netns", other}, args...)...)
	h.must("check", "s1")
	if err := netns.Remove(other); err != nil {
		t.Fatal(err)
	}

	// The namespace dies without teardown, as in a reboot or after a failed CHECK.
	if err := netns.Remove(first.Netns); err != nil {
		t.Fatal(err)
	}
	h.refuse(1, []string{"missing"}, "check", "s1")
	anew := h.attach(args...)
	if anew.Attachments[0].MAC == first.Attachments[0].MAC {
		t.Error("what is reported belongs to the namespace that died")
	}
	requireLeases(t, anew)
	h.must("detach", "s1")
}

// requireLeases fails the test when there are leases besides the allocation's.
func requireLeases(t *testing.T, a *hook.Allocation) {
	t.Helper()
	for _, n := range a.Attachments {
		leases, err := filepath.Glob("/var/lib/cni/networks/" + n.Network + "/*[.:]*")
		if err != nil {
			t.Fatal(err)
		}
		leases = slices.DeleteFunc(leases, func(path string) bool { return strings.Contains(path, "last_reserved") })
		if len(leases) != len(n.Addresses) {
			t.Errorf("network %s has leases %v for addresses %v", n.Network, leases, n.Addresses)
		}
	}
}

func TestConfDirectoryChanges(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, dir string){
		"emptied": func(t *testing.T, dir string) {
			files, _ := filepath.Glob(dir + "/*")
			for _, file := range files {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
		},
		"edited": func(t *testing.T, dir string) {
			files, _ := filepath.Glob(dir + "/*")
			for _, file := range files {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				edited := strings.NewReplacer("web0", "other0", "10.88", "10.77", "10.89", "10.78", `"portmap"`, `"tuning"`).Replace(string(data))
				sandbox.WriteFile(t, file, edited)
			}
		},
		"removed": func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.attach("c1", "--primary", "web", "--networks", "storage,peer,vlan", "--publish", "8080:80")
			change(t, h.conf)
			h.must("detach", "c1")
		})
	}
}

func TestLostState(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, h *host){
		"all of it": func(t *testing.T, h *host) {
			if err := os.RemoveAll(h.state); err != nil {
				t.Fatal(err)
			}
		},
		"one attachment": func(t *testing.T, h *host) {
			sandbox.SpoilLines(t, h.state+"/allocations/l1/journal", `"interface":"net1"`)
		},
		"the cache": func(t *testing.T, _ *host) {
			if err := os.RemoveAll("/var/lib/cni/results"); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir("/var/lib/cni/results", 0o700); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.attach("l1", "--primary", "web", "--networks", "storage,peer", "--publish", "8080:80")
			lose(t, h)
			h.must("detach", "l1")
			if err := os.RemoveAll(h.state + "/damaged"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestNamespaceGone(t *testing.T) {
	for name, remove := range map[string]func(t *testing.T, path string){
		"path gone": func(t *testing.T, path string) {
			if err := netns.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
		"no longer a namespace": func(t *testing.T, path string) {
			sandbox.Run(t, "umount", path)
		},
		"another one in its place": func(t *testing.T, path string) {
			if err := netns.Remove(path); err != nil {
				t.Fatal(err)
			}
			if _, err := netns.Create(filepath.Dir(path), filepath.Base(path)); err != nil {
				t.Fatal(err)
			}
			sandbox.Run(t, "ip", "netns", "exec", filepath.Base(path), "ip", "link", "add", "eth0", "type", "bridge")
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			a := h.attach("g1", "--primary", "web", "--networks", "storage,vlan", "--publish", "8080:80")
			remove(t, a.Netns)
			h.must("detach", "g1")
			h.must("detach", "g1")
			if _, err := os.Stat(a.Netns); err == nil {
				if out := sandbox.Run(t, "ip", "-n", "g1", "-br", "link"); !strings.Contains(out, "eth0") {
					t.Errorf("detach harmed the namespace that took the place:\n%s", out)
				}
				if err := netns.Remove(a.Netns); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestRefused(t *testing.T) {
	h := newHost(t)
	log := filepath.Join(t.TempDir(), "calls")
	h.fake("fake", fakecni.Script{Log: log})
	sandbox.WriteFile(t, h.conf+"/95-broken.conflist", "{\n  \"name\": \"broken\",")
	sandbox.WriteFile(t, h.conf+"/96-noplugin.conflist", `{"cniVersion": "1.0.0", "name": "noplugin", "plugins": [{"type": "nosuch"}]}`)
	for name, test := range map[string]struct {
		words []string
		args  []string
	}{
		"ID leaves the directory":          {[]string{`"../x"`}, []string{"../x", "--primary", "fake"}},
		"ID with a slash":                  {[]string{`"a/b"`}, []string{"a/b", "--primary", "fake"}},
		"empty ID":                         {[]string{"is empty"}, []string{"", "--primary", "fake"}},
		"network leaves the dir":           {[]string{"primary", "../fake"}, []string{"x", "--primary", "../fake"}},
		"16 bytes of interface":            {[]string{"networks[0].interface", "16 bytes"}, []string{"x", "--networks", "fake@abcdefghijklmnop"}},
		"empty interface":                  {[]string{"networks[0]", "fake@"}, []string{"x", "--networks", "fake@"}},
		"ID with a pair":                   {[]string{`"a;IP=1"`}, []string{"a;IP=1", "--primary", "fake"}},
		"ID like an option":                {[]string{`"-a"`}, []string{"--primary", "fake", "--", "-a"}},
		"ID with a quote":                  {[]string{"allocation ID"}, []string{`a" -j ACCEPT`, "--primary", "fake"}},
		"interface leaves the dir":         {[]string{"networks[0].interface"}, []string{"x", "--networks", "fake@../../x"}},
		"interface with a rule":            {[]string{"networks[0].interface"}, []string{"x", "--networks", `fake@a";flush`}},
		"interface with a pattern":         {[]string{"networks[0].interface"}, []string{"x", "--networks", "fake@net%d"}},
		"host IP with a rule":              {[]string{"host IP", "zone"}, []string{"x", "--networks", `[{"name": "web", "portMappings": [{"hostPort": 80, "hostIP": "::1%x accept"}]}]`}},
		"label that is no port":            {[]string{`"../x"`}, []string{"x", "--primary", "web", "--networks", `[{"name": "web", "ports": ["../x"]}]`, "-p", "http=8080:80/tcp"}},
		"network with a pair":              {[]string{"networks[0].name"}, []string{"x", "--networks", "fake;IP=10.0.0.1"}},
		"JSON in a name":                   {[]string{"networks[0].name"}, []string{"x", "--networks", `[{"name": "fake\", \"ips\": [\"10.0.0.1\"]"}]`}},
		"NUL in an interface":              {[]string{"networks[0].interface"}, []string{"x", "--networks", `[{"name": "fake", "interface": "a\u0000b"}]`}},
		"interface twice":                  {[]string{"networks[1].interface", "networks[0]"}, []string{"x", "--networks", "fake@a,fake@a"}},
		"interface of the primary":         {[]string{"the primary"}, []string{"x", "--primary", "fake", "--networks", "fake@eth0"}},
		"interface exists":                 {[]string{"lo exists already"}, []string{"x", "--networks", "fake@lo"}},
		"unknown network":                  {[]string{`"nope"`, "storage", "95-broken.conflist:2:"}, []string{"x", "--primary", "fake", "--networks", "nope"}},
		"missing plugin":                   {[]string{`"nosuch"`, sandbox.PluginDir()}, []string{"x", "--primary", "fake", "--networks", "noplugin"}},
		"port out of range":                {[]string{"70000"}, []string{"x", "--primary", "web", "-p", "70000:80"}},
		"port twice":                       {[]string{"8080/tcp", "twice"}, []string{"x", "--primary", "web", "-p", "8080:80", "-p", "10.0.0.1:8080:81/tcp"}},
		"port without portmap":             {[]string{"portMappings", `"fake"`}, []string{"x", "--primary", "fake", "-p", "8080:80"}},
		"port without primary":             {[]string{"8080", "no primary"}, []string{"x", "--networks", "fake", "-p", "8080:80"}},
		"address not declared":             {[]string{`"ips"`, "declared: none"}, []string{"x", "--networks", `[{"name": "fake", "ips": ["10.93.0.9"]}]`}},
		"bad address":                      {[]string{"networks[0].ips[1]", `"10.1"`}, []string{"x", "--networks", `[{"name": "fixed", "ips": ["10.1.0.1", "10.1"]}]`}},
		"unknown key":                      {[]string{"networks[0]", `"ip"`}, []string{"x", "--networks", `[{"name": "fixed", "ip": "10.1.0.1"}]`}},
		"MTU without the key":              {[]string{"mtu", `"fake"`}, []string{"x", "--networks", `[{"name": "fake", "mtu": 1400}]`}},
		"nothing to attach":                {[]string{"nothing to attach"}, []string{"x"}},
		"two primaries":                    {[]string{"--primary"}, []string{"x", "--primary", "fake,web"}},
		"no such flag":                     {[]string{"--frobnicate"}, []string{"x", "--frobnicate"}},
		"no CNI configuration directory":   {[]string{"/nonexistent"}, []string{"x", "--primary", "fake", "--conf-dir", "/nonexistent"}},
		"two default routes of one family": {[]string{"default-route"}, []string{"x", "--networks", `[{"name": "fake", "default-route": []}, {"name": "storage", "default-route": ["10.89.0.1"]}]`}},
	} {
		t.Run(name, func(t *testing.T) {
			h := *h
			h.t = t
			args := append([]string{"attach"}, test.args...)
			if !slices.Contains(args, "--primary") {
				args = append(args, "--primary=")
			}
			h.refuse(2, test.words, args...)
		})
	}
	if calls, err := os.ReadFile(log); err == nil {
		t.Errorf("plugins ran:\n%s", calls)
	}
	if _, err := state.Open(h.state); err != nil {
		t.Error(err)
	}
}

// TestNeighbour: an interface name gives an allocation no access to libcni's cached
// results of another allocation.
func TestNeighbour(t *testing.T) {
	h := newHost(t)
	h.must("attach", "a-1", "--primary", "storage")
	h.refuse(2, []string{`"1-eth0"`, "container ID a-1"}, "attach", "a", "--primary", "storage@1-eth0")
	h.must("attach", "a", "--primary=", "--networks", "storage@1-eth0") // has a container ID of its own
	h.must("detach", "a")
	h.must("check", "a-1")
	h.must("detach", "a-1")
	h.must("attach", "a", "--primary", "storage@1-eth0") // the name is free again
	h.must("detach", "a")
}

// TestRefusedNamespace: a missing namespace, and a name that another program has taken,
// are refused. Nothing is changed.
func TestRefusedNamespace(t *testing.T) {
	h := newHost(t)
	h.refuse(2, []string{"/run/netns/none", "missing"}, "attach", "n1", "--netns", "/run/netns/none", "--primary", "web")
	foreign(t, "n2")
	h.refuse(2, []string{"network namespace exists already", "/run/netns/n2"}, "attach", "n2", "--primary", "web")
	h.refuse(2, []string{"network namespace exists already"}, "run", "--id", "n2", "--primary", "web", "--", "true")
	h.refuse(2, []string{"--file and --primary: want one of them"}, "attach", "n3", "--file", "x.hcl", "--primary", "web")
	h.refuse(2, []string{"unknown command"}, "atach")
	if _, err := os.Stat("/run/netns/n2"); err != nil {
		t.Error(err)
	}
}
