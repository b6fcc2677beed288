// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	mdnetlink "github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestCommand: allocnet repair reports and repairs, with exit code 1 while something is
// missing. Where nothing is, it changes nothing: the kernel reports no change.
func TestCommand(t *testing.T) {
	h := newHost(t, hook.ExecutorAuto, "iptables")
	h.attach("one", 8080)
	t.Cleanup(func() { h.detach("one") })
	before := h.picture("one")
	steps := []struct {
		damage string
		args   []string
		code   int
		words  []string
	}{
		{"true", []string{"--dry-run"}, 0, []string{"Nothing is missing."}},
		{"nft flush ruleset", []string{"--dry-run"}, 1, []string{"missing", "chain CNI-FORWARD of table filter of iptables", "1 attachment lacks"}},
		{"true", []string{"--json"}, 0, []string{`"repaired": true`, `"network": "web"`}},
		{"ip link del web0", nil, 0, []string{"repaired", "bridge web0"}},
		{"true", nil, 0, []string{"Nothing is missing."}},
		{"true", []string{"other"}, 3, nil},
	}
	for _, step := range steps {
		shell(t, step.damage)
		out, code := h.command(append([]string{"repair"}, step.args...)...)
		if code != step.code {
			t.Errorf("%q after %q: exit code %d, want %d\n%s", step.args, step.damage, code, step.code, out)
		}
		for _, word := range step.words {
			if !strings.Contains(out, word) {
				t.Errorf("%q after %q: %q is not in\n%s", step.args, step.damage, word, out)
			}
		}
	}
	h.requireSame(before, "one")
	if events, _ := h.command("events", "--json", "--allocation", "one"); strings.Count(events, `"operation":"repair"`) != 2 || !strings.Contains(events, "bridge web0") {
		t.Errorf("events:\n%s", events)
	}
	sandbox.Eventually(t, "the kernel uses the IPv6 address of the bridge that was made again", func() bool {
		return h.run("ip -6 route show table local fd00:88::1 dev web0") != "" && h.run("ip -6 address show dev web0 tentative") == ""
	})
	h.requireQuiet()
}

// environment has the flags of commands on the host.
func (h *host) environment() []string {
	return []string{"ALLOCNET_CONF_DIR=" + h.conf(), "ALLOCNET_STATE_DIR=" + h.state(), "ALLOCNET_PLUGIN_DIR=" + sandbox.PluginDir()}
}

func (h *host) command(args ...string) (out string, code int) {
	h.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), h.environment()...)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		h.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// requireQuiet repairs an undamaged host: neither nftables nor a link, an address or a route
// changes. The kernel's events come in order, so the first one is that of a link made afterwards.
func (h *host) requireQuiet() {
	h.Helper()
	links, routes, done := make(chan netlink.LinkUpdate, 100), make(chan netlink.RouteUpdate, 100), make(chan struct{})
	defer close(done)
	for _, err := range []error{netlink.LinkSubscribe(links, done), netlink.RouteSubscribe(routes, done)} {
		if err != nil {
			h.Fatal(err)
		}
	}
	rules := h.generation()
	if found := missing(h.repair(hook.RepairRules)); found != "" {
		h.Errorf("a repair found:\n%s", found)
	}
	if now := h.generation(); now != rules {
		h.Errorf("the generation of nftables is %s, was %s", now, rules)
	}
	h.run("ip link add marker type bridge")
	defer h.run("ip link del marker")
	h.run("ip link set marker up")
	if first := <-links; first.Attrs().Name != "marker" {
		h.Errorf("link %s changed", first.Attrs().Name)
	}
	h.run("ip route add 198.51.100.0/24 dev marker")
	if first := <-routes; first.LinkIndex != h.index("marker") {
		h.Errorf("route %v changed", first.Route)
	}
}

func (h *host) index(name string) int {
	h.Helper()
	link, err := netlink.LinkByName(name)
	if err != nil {
		h.Fatal(err)
	}
	return link.Attrs().Index
}

// generation is the last change of nftables, as the kernel describes it.
func (h *host) generation() string {
	h.Helper()
	conn, err := mdnetlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		h.Fatal(err)
	}
	defer conn.Close()
	replies, err := conn.Execute(mdnetlink.Message{
		Header: mdnetlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN, Flags: mdnetlink.Request},
		Data:   make([]byte, 4),
	})
	if err != nil {
		h.Fatal(err)
	}
	return fmt.Sprintf("%x", replies[0].Data[:12]) // after that comes who asks
}
