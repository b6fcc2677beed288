// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// dual is a network of both families on a bridge of its own, with a fake plugin
// that can fail.
func (h *host) dual(mtu int, add fakecni.Behaviour) {
	h.t.Helper()
	h.fake("dual", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"ADD": add}})
	path := h.conf + "/90-dual.conflist"
	text := sandbox.Run(h.t, "cat", path)
	text = strings.Replace(text, `"bridge": "storage0", "ipam": {"type": "host-local", "subnet": "10.93.0.0/16",`,
		fmt.Sprintf(`"bridge": "dual0", "isGateway": true, "mtu": %d, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.93.0.0/16"}], [{"subnet": "fd00:93::/64"}]],`, mtu), 1)
	sandbox.WriteFile(h.t, path, text)
}

// requireBridge fails the test unless a bridge has the MTU, and the IPv6 address of its
// gateway.
func (h *host) requireBridge(mtu int) {
	h.t.Helper()
	link := sandbox.Run(h.t, "ip", "address", "show", "dev", "dual0")
	for _, want := range []string{fmt.Sprintf("mtu %d ", mtu), "fd00:93::1/64", "10.93.0.1/16"} {
		if !strings.Contains(link, want) {
			h.t.Errorf("the bridge lacks %q:\n%s", want, link)
		}
	}
}

func requireMTU(t *testing.T, a *hook.Allocation, want int) {
	t.Helper()
	if got := a.Attachments[0].MTU; got != want {
		t.Errorf("%s has MTU %d, want %d", a.ID, got, want)
	}
}

// TestChosenMTU: a smaller MTU changes only the allocation that chooses it.
func TestChosenMTU(t *testing.T) {
	for _, mtu := range []int{1500, 9000} {
		t.Run(fmt.Sprint(mtu), func(t *testing.T) {
			h := newHost(t)
			defer sandbox.Run(t, "ip", "link", "delete", "dual0")
			h.dual(mtu, fakecni.Behaviour{})
			choose := func(id, elements string) *hook.Allocation { return h.attach(id, "--networks", elements) }

			requireMTU(t, choose("u1", `{"name": "dual", "mtu": 1400}`), 1400) // makes the bridge
			h.requireBridge(mtu)
			requireMTU(t, choose("u2", "dual"), mtu)
			requireMTU(t, choose("u3", `{"name": "dual", "mtu": 1280}`), 1280)
			h.requireBridge(mtu)
			for _, id := range []string{"u1", "u2", "u3"} {
				h.must("detach", id)
			}
			h.requireBridge(mtu)
		})
	}
}

// TestChosenMTUOnAPlainBridge: no allocation has chosen an MTU on the bridge before, so
// that the MTU of the bridge follows its ports.
func TestChosenMTUOnAPlainBridge(t *testing.T) {
	h := newHost(t)
	defer sandbox.Run(t, "ip", "link", "delete", "dual0")
	h.dual(1500, fakecni.Behaviour{})
	h.attach("u1", "--networks", "dual")
	h.attach("u2", "--networks", `{"name": "dual", "mtu": 1400}`)
	h.requireBridge(1500)
	h.must("detach", "u1")
	h.attach("u3", "--networks", "dual")
	h.requireBridge(1500)
	h.must("detach", "u2")
	h.must("detach", "u3")
}

// TestLongChosenMTUAtOnce: no call takes the MTU that another one sets for a moment for that
// of the bridge.
func TestLongChosenMTUAtOnce(t *testing.T) {
	h := newHost(t)
	defer sandbox.Run(t, "ip", "link", "delete", "dual0")
	h.dual(1500, fakecni.Behaviour{})
	h.attach("u0", "--networks", "dual")
	var all sync.WaitGroup
	for i := 1; i <= 4; i++ {
		all.Go(func() {
			var elements []string
			for mtu := 1280; mtu < 1290; mtu++ {
				elements = append(elements, fmt.Sprintf(`{"name": "dual", "mtu": %d}`, mtu))
			}
			if o := h.allocnet("attach", fmt.Sprint("u", i), "--primary=", "--networks", "["+strings.Join(elements, ",")+"]"); o.code != 0 {
				t.Errorf("exit code %d: %s", o.code, o.stderr)
			}
		})
	}
	all.Wait()
	h.requireBridge(1500)
	for i := range 5 {
		h.must("detach", fmt.Sprint("u", i))
	}
	h.requireBridge(1500)
}

// TestFailedChosenMTU: a set-up that is refused or fails does not change the bridge.
func TestFailedChosenMTU(t *testing.T) {
	h := newHost(t)
	defer sandbox.Run(t, "ip", "link", "delete", "dual0")
	h.dual(1500, fakecni.Behaviour{})
	h.attach("u1", "--networks", "dual")
	for _, mtu := range []string{"68", "1279", "1501"} {
		h.refuse(2, []string{"mtu", mtu, "1280"}, "attach", "u2", "--primary=", "--networks", `{"name": "dual", "mtu": `+mtu+`}`)
	}
	h.requireBridge(1500)
	h.dual(1500, fakecni.Behaviour{Code: 7, Msg: "no"})
	h.refuse(1, []string{"dual"}, "attach", "u2", "--primary=", "--networks", `{"name": "dual", "mtu": 1280}`)
	h.requireBridge(1500)
	h.must("detach", "u1")
	h.refuse(1, []string{"dual"}, "attach", "u2", "--primary=", "--networks", `{"name": "dual", "mtu": 1280}`) // no port is left
	h.requireBridge(1500)
}

// TestFailedChosenMTUOfTwo: two allocations choose an MTU, and the one that created the
// bridge fails. The bridge still has the network's MTU.
func TestFailedChosenMTUOfTwo(t *testing.T) {
	h := newHost(t)
	defer sandbox.Run(t, "ip", "link", "delete", "dual0")
	dir := t.TempDir()
	h.dual(1500, fakecni.Behaviour{Mark: dir + "/begun", Await: dir + "/fail", Code: 7, Msg: "no"})
	first := h.command("attach", "u1", "--primary=", "--networks", `{"name": "dual", "mtu": 1280}`)
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	sandbox.Eventually(t, "the first is a port of the bridge", func() bool { _, err := os.Stat(dir + "/begun"); return err == nil })
	h.dual(1500, fakecni.Behaviour{})
	h.attach("u2", "--networks", `{"name": "dual", "mtu": 1280}`)
	sandbox.WriteFile(t, dir+"/fail", "")
	if err := first.Wait(); err == nil {
		t.Error("the first did not fail")
	}
	h.requireBridge(1500)
	h.must("detach", "u2")
	h.attach("u3", "--networks", "dual")
	h.requireBridge(1500)
	h.must("detach", "u3")
}
