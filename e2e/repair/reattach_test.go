// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/selection"
)

// furtherNetworks are those of the tests of attachments that are attached again: one whose
// configuration allocnet does not know, and one with addresses of a pool.
var furtherNetworks = map[string]string{
	"unknown": `{"cniVersion": "1.0.0", "name": "unknown", "plugins": [
		{"type": "bridge", "bridge": "tuned0", "a key of another version": 1, "ipam": {"type": "host-local", "subnet": "10.93.0.0/16", "routes": [{"dst": "198.51.100.0/24"}]}}]}`,
	"pool": `{"cniVersion": "1.0.0", "name": "pool", "plugins": [
		{"type": "bridge", "bridge": "tuned0", "ipam": {"type": "allocnet-ipam", "pool": "p", "ranges": [{"subnet": "10.94.0.0/16"}], "dataDir": "DIR/leases", "stateDir": "DIR/blocks", "configDir": "DIR/none"}}]}`,
}

// newReattachHost returns a host with an allocation that has all networks.
func newReattachHost(t *testing.T, executor string) (*host, *hook.Allocation) {
	t.Helper()
	shell(t, "mkdir -p /var/lib/cni/networks/unknown; touch /var/lib/cni/networks/unknown/lock; printf 10.93.0.1 >/var/lib/cni/networks/unknown/last_reserved_ip.0")
	h := newHost(t, executor, "iptables")
	others := further
	for name, text := range furtherNetworks {
		sandbox.WriteFile(t, filepath.Join(h.conf(), name+".conflist"), strings.ReplaceAll(text, "DIR", h.dir))
		others = append(others[:len(others):len(others)], selection.Element{Name: name, Interface: name + "0"})
	}
	a := h.attach("one", 8080, others...)
	t.Cleanup(func() {
		h.detach("one")
		shell(t, "ip link set tuned0 mtu 1500")
	})
	return h, a
}

var (
	pairs     = regexp.MustCompile(`(veth|bwp)[0-9a-f]+`)
	hardware  = regexp.MustCompile(`([0-9a-f]{2}:){5}[0-9a-f]{2}`)
	numbered  = regexp.MustCompile(`@[a-z0-9]+`)
	linkLocal = regexp.MustCompile(`fe80::[0-9a-f:]+`)
)

// withoutMade returns a picture without what is made up for each pair of links: the name and the MAC of
// the end on the host, and for networks whose plugin takes no MAC that of the end inside.
func withoutMade(picture string) string {
	var lines []string
	for _, line := range strings.Split(picture, "\n") {
		if strings.Contains(line, "/var/lib/cni/results/") || strings.Contains(line, "/run/cni/tuning/") {
			continue // names of pairs, and the keys of objects in another order
		}
		if strings.Contains(line, "veth") || strings.Contains(line, "bwp") || strings.Contains(line, "peer0") {
			line = hardware.ReplaceAllString(line, "MAC")
		}
		line = numbered.ReplaceAllString(line, "@")
		lines = append(lines, linkLocal.ReplaceAllString(pairs.ReplaceAllString(line, "$1"), "fe80::"))
	}
	return sorted(strings.Join(lines, "\n"))
}

func (h *host) requireAsBefore(before string) {
	h.Helper()
	if diff := difference(withoutMade(before), withoutMade(h.picture("one"))); diff != "" {
		h.Errorf("the host is not as it was (-before +after):\n%s", diff)
	}
}

// TestReattach deletes interfaces inside, and allocnet repair --reattach attaches them again as they
// were, while connections through the other attachment survive.
func TestReattach(t *testing.T) {
	for name, executor := range map[string]string{"in process": hook.ExecutorAuto, "plugins": hook.ExecutorPlugins} {
		t.Run(name, func(t *testing.T) {
			h, a := newReattachHost(t, executor)
			before := h.picture("one")
			peer := a.Attachments[1].Addresses[0].Addr().String()
			other := h.connect("through the other attachment", "/proc/self/ns/net", a.Netns, ":81", peer+":81")
			shell(t, "for i in eth0 tuned0 unknown0 pool0; do ip -n one link del $i; done")
			if out, code := h.command("repair"); code != 1 || strings.Count(out, "to be attached again") != 4 {
				t.Errorf("exit code %d:\n%s", code, out)
			}
			if out, code := h.command("repair", "--reattach", "one"); code != 0 || strings.Count(out, "attached again") != 4 {
				t.Errorf("exit code %d:\n%s", code, out)
			}
			h.requireAlive(other)
			h.connect("to the published port", outside, a.Netns, ":80", hostAddress+":8080")
			h.requireAsBefore(before)
			if out, code := h.command("repair", "--reattach"); code != 0 || !strings.Contains(out, "Nothing is missing.") {
				t.Errorf("again: exit code %d:\n%s", code, out)
			}
		})
	}
}

// TestLongAgentReattaches: in its mode the agent attaches deleted interfaces again, after the kernel has told.
func TestLongAgentReattaches(t *testing.T) {
	h, a := newReattachHost(t, hook.ExecutorAuto)
	before := h.picture("one")
	h.startAgent("one", "repair {\n  mode = \"reattach\"\n}")
	shell(t, "for i in eth0 tuned0 pool0; do ip -n one link del $i; done")
	diff := ""
	sandbox.Eventually(t, "the host is as it was", func() bool {
		diff = difference(withoutMade(before), withoutMade(h.picture("one")))
		return diff == ""
	}, func() string { return diff })
	h.connect("to the published port", outside, a.Netns, ":80", hostAddress+":8080")
}

// TestReattachUnknown: damage that only CHECK of an unknown plugin sees.
func TestReattachUnknown(t *testing.T) {
	h, _ := newReattachHost(t, hook.ExecutorAuto)
	before := h.picture("one")
	if out, code := h.command("check", "one"); code != 0 { // a CHECK that has never passed proves nothing
		t.Fatalf("check: exit code %d:\n%s", code, out)
	}
	h.run("ip -n one route del 198.51.100.0/24")
	if out, code := h.command("repair"); code != 1 || !strings.Contains(out, "to be attached again") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if out, code := h.command("repair", "--reattach"); code != 0 || strings.Count(out, "attached again") != 1 {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	h.requireAsBefore(before)
}

// TestLongReattachTaken: the address is taken when ADD has failed before. The attachment gets no other one,
// and is attached when the address is free.
func TestLongReattachTaken(t *testing.T) {
	h, a := newReattachHost(t, hook.ExecutorAuto)
	before := h.picture("one")
	last := "/var/lib/cni/networks/tuned/last_reserved_ip.0"
	lease := filepath.Join(filepath.Dir(last), a.Attachments[3].Addresses[0].Addr().String())
	shell(t, "ip -n one link del tuned0; mv "+last+" "+h.dir+"/last; mkdir "+last)
	for _, step := range []struct {
		command, word string
		code          int
	}{
		{"test ! -e " + lease + "; echo another >" + lease, "is not a regular file", 1},
		{"rmdir " + last + "; mv " + h.dir + "/last " + last, "requested IP address", 1},
		{"rm " + lease, "attached again", 0},
	} {
		if step.word == "is not a regular file" { // the lease of an attachment is freed with it
			if out, code := h.command("repair", "--reattach"); code != step.code || !strings.Contains(out, step.word) {
				t.Errorf("exit code %d, want %d, and %q:\n%s", code, step.code, step.word, out)
			}
			shell(t, step.command)
			continue
		}
		shell(t, step.command)
		if out, code := h.command("repair", "--reattach"); code != step.code || !strings.Contains(out, step.word) {
			t.Errorf("exit code %d, want %d, and %q:\n%s", code, step.code, step.word, out)
		}
	}
	h.requireAsBefore(before)
}

// TestLongReattachMoved: a task has moved its macvlan interface into a namespace of its own. DEL would free
// the address that is in use there.
func TestLongReattachMoved(t *testing.T) {
	for name, executor := range map[string]string{"in process": hook.ExecutorAuto, "plugins": hook.ExecutorPlugins} {
		t.Run(name, func(t *testing.T) {
			h, a := newReattachHost(t, executor)
			address := a.Attachments[2].Addresses[0]
			shell(t, "ip netns add nested; ip -n one link set vlan0 netns nested; ip -n nested addr add "+address.String()+" dev vlan0; ip -n nested link set vlan0 up")
			defer shell(t, "ip netns del nested")
			before := h.picture("one")
			if out, code := h.command("repair", "--reattach", "one"); code != 1 || !strings.Contains(out, "nothing tells whether vlan0 is gone") {
				t.Errorf("exit code %d:\n%s", code, out)
			}
			h.requireAsBefore(before)
			h.run("test -e /var/lib/cni/networks/vlan/" + address.Addr().String())
		})
	}
}

// TestLongKilledReattach kills allocnet repair --reattach at many instants. GC leaves the allocation alone,
// and the next repair completes what was begun.
func TestLongKilledReattach(t *testing.T) {
	for name, executor := range map[string]string{"in process": hook.ExecutorAuto, "plugins": hook.ExecutorPlugins} {
		t.Run(name, func(t *testing.T) {
			h, _ := newReattachHost(t, executor)
			before := h.picture("one")
			for delay := 20 * time.Millisecond; delay < 400*time.Millisecond; delay += 30 * time.Millisecond {
				shell(t, "for i in eth0 tuned0 pool0; do ip -n one link del $i; done")
				h.kill(delay, "repair", "--reattach")
				if _, err := h.engine.GC(context.Background(), hook.GCRequest{}); err != nil {
					t.Errorf("killed after %s: GC: %v", delay, err)
				}
				if out, code := h.command("repair", "--reattach"); code != 0 {
					t.Fatalf("killed after %s: exit code %d:\n%s", delay, code, out)
				}
				h.requireAsBefore(before)
			}
			shell(t, "ip -n one link del eth0") // it is detached so
			h.kill(100*time.Millisecond, "repair", "--reattach")
		})
	}
}

// TestLongLostInterface: detaching an allocation whose task has deleted its interface leaves nothing,
// though DEL of bridge and ptp then leaves rules.
func TestLongLostInterface(t *testing.T) {
	for name, executor := range map[string]string{"in process": hook.ExecutorAuto, "plugins": hook.ExecutorPlugins} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, executor, "iptables")
			h.attach("one", 8080, further...)
			shell(t, "for i in eth0 peer0; do ip -n one link del $i; done")
			h.detach("one")
		})
	}
}

// TestLongDetachKeepsInterfaceOfTask: a task makes an interface of the name after its attachment was not attached
// again. Detaching leaves it, and nothing of the attachment.
func TestLongDetachKeepsInterfaceOfTask(t *testing.T) {
	for name, executor := range map[string]string{"in process": hook.ExecutorAuto, "plugins": hook.ExecutorPlugins} {
		t.Run(name, func(t *testing.T) {
			h, a := newReattachHost(t, executor)
			last := "/var/lib/cni/networks/tuned/last_reserved_ip.0"
			lease := filepath.Join(filepath.Dir(last), a.Attachments[3].Addresses[0].Addr().String())
			shell(t, "ip -n one link del tuned0; ip -n one link del peer0; mv "+last+" "+h.dir+"/last; mkdir "+last)
			if out, code := h.command("repair", "--reattach"); code != 1 || !strings.Contains(out, "last_reserved_ip.0") {
				t.Errorf("exit code %d:\n%s", code, out)
			}
			shell(t, "rmdir "+last+"; mv "+h.dir+"/last "+last+"; for i in tuned0 vlan0; do ip -n one link del $i 2>/dev/null || :; ip -n one link add $i type bridge; done")
			if out, _ := h.command("status", "one"); !strings.Contains(out, "reattaching") {
				t.Errorf("status:\n%s", out)
			}
			for _, iface := range []string{"tuned0", "vlan0"} {
				if err := h.engine.Detach(context.Background(), "one", iface); err != nil {
					t.Error(err)
				}
				if out := h.run("ip -n one -d link show " + iface); !strings.Contains(out, "bridge forward_delay") {
					t.Errorf("the task's interface is removed:\n%s", out)
				}
			}
			h.run("test ! -e " + lease)
		})
	}
}

// kill runs a command and kills it after a time.
func (h *host) kill(delay time.Duration, args ...string) {
	h.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), h.environment()...)
	if err := cmd.Start(); err != nil {
		h.Fatal(err)
	}
	time.Sleep(delay)
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()         // killed
}
