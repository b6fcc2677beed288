// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/event"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// sumOf returns the sum of a metric of the running agent.
func (h *host) sumOf(metric string) (sum int) {
	h.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(h.dir, "agent", "agent.sock"))
	}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get("http://agent" + api.PathMetrics)
	if err != nil {
		h.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		h.Fatal(err)
	}
	for _, series := range regexp.MustCompile(`(?m)^`+metric+`\{.*\} (\d+)$`).FindAllStringSubmatch(string(page), -1) {
		n, err := strconv.Atoi(series[1])
		if err != nil {
			h.Fatal(err)
		}
		sum += n
	}
	return sum
}

// awaitRepair waits until the host is as it was, and requires that the kernel had told of the damage:
// the time of what the comparison at an interval finds is not counted.
func (h *host) awaitRepair(before string, damage func()) {
	h.Helper()
	const repairs, delays = "allocnet_repairs_total", "allocnet_repair_delay_seconds_count"
	sandbox.Eventually(h, "the first round is complete", func() bool { return h.sumOf(repairs) > 0 })
	made, told, diff := h.sumOf(repairs), h.sumOf(delays), ""
	damage()
	sandbox.Eventually(h, "the host is as it was", func() bool {
		diff = difference(before, h.picture("one"))
		return diff == "" && h.sumOf(repairs) > made
	}, func() string { return diff })
	if h.sumOf(delays) == told {
		h.Error("repaired by the comparison at an interval: the agent was not told")
	}
}

// removers are the names of the processes that have removed what the repairs since an event restored.
func (h *host) removers(after uint64) (names []string, last uint64) {
	h.Helper()
	for e, err := range (event.Log{StateDir: h.state()}).Events(context.Background(), event.Filter{After: after}, false) {
		if err != nil {
			h.Fatal(err)
		}
		for _, by := range e.RemovedBy {
			names = append(names, by.Name)
		}
		last = e.Index
	}
	slices.Sort(names)
	return slices.Compact(names), last
}

// TestLongRemovedBy: the events, the API and doctor name the process that removes rules again and again, and
// neither the agent, nor iptables-restore that it executes.
func TestLongRemovedBy(t *testing.T) {
	for backend, commands := range map[string]map[string]string{
		"iptables": {"nft flush ruleset": "nft", "iptables -t nat -F": "iptables", "iptables -D CNI-FORWARD -s $ADDRESS -j ACCEPT": "iptables"},
		"nftables": {"nft flush ruleset": "nft", "nft flush chain ip cni_hostport hostports": "nft"},
	} {
		t.Run(backend, func(t *testing.T) {
			h := newHost(t, hook.ExecutorAuto, backend)
			a := h.attach("one", 8080)
			t.Cleanup(func() { h.detach("one") })
			h.startAgent("one")
			before := h.picture("one")
			_, last := h.removers(0)
			for command, name := range commands {
				h.awaitRepair(before, func() { shell(t, "ADDRESS="+a.Attachments[0].Addresses[0].Addr().String()+"; "+command) })
				var names []string
				if names, last = h.removers(last); !slices.Equal(names, []string{name}) {
					t.Errorf("%s: removed by %q, want %q", command, names, name)
				}
			}
			h.awaitRepair(before, func() { shell(t, "ip link set web0 down") })
			if names, _ := h.removers(last); len(names) > 0 {
				t.Errorf("a link was set down by %q", names)
			}
		})
	}
}

// TestDoctorNames: doctor names the process of a fight.
func TestDoctorNames(t *testing.T) {
	h := newHost(t, hook.ExecutorAuto, "iptables")
	h.attach("one", 8080)
	t.Cleanup(func() { h.detach("one") })
	h.startAgent("one")
	before := h.picture("one")
	for range 3 {
		h.awaitRepair(before, func() { shell(t, "nft flush ruleset") })
	}
	if out, _ := h.command("doctor"); !strings.Contains(out, "removed by nft (PID ") {
		t.Error(out)
	}
}

// TestLongToldOfNamespaces: the kernel tells of changes in a namespace with a macvlan interface only, and of
// lo in one whose bridge was made again.
func TestLongToldOfNamespaces(t *testing.T) {
	vlan := func(h *host) {
		if _, err := h.engine.Setup(t.Context(), hook.Request{ID: "one", Networks: further[1:2]}); err != nil {
			h.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		attach   func(h *host)
		commands []string
	}{
		"macvlan": {vlan, []string{"ip -n one link set vlan0 down", "ip -n one address flush dev vlan0 scope global", "ip -n one link set lo down"}},
		"bridge":  {func(h *host) { h.attach("one", 8080) }, []string{"ip link del web0", "ip -n one link set lo down", "ip -n one route del default"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, hook.ExecutorAuto, "iptables")
			test.attach(h)
			t.Cleanup(func() { h.detach("one") })
			h.startAgent("one")
			before := h.picture("one")
			for _, command := range test.commands {
				h.awaitRepair(before, func() { shell(t, command) })
			}
		})
	}
}

// TestToldOfHost: without CAP_NET_BROADCAST the kernel tells of the host alone.
func TestToldOfHost(t *testing.T) {
	h := newHost(t, hook.ExecutorAuto, "iptables")
	h.launcher = []string{"setpriv", "--bounding-set", "-net_broadcast"}
	a := h.attach("one", 8080)
	t.Cleanup(func() { h.detach("one") })
	h.startAgent("one")
	before := h.picture("one")
	for _, command := range []string{"iptables -D CNI-FORWARD -s " + a.Attachments[0].Addresses[0].Addr().String() + " -j ACCEPT", "ip link set web0 down"} {
		h.awaitRepair(before, func() { shell(t, command) })
	}
}
