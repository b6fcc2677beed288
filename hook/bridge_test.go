// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// bridgeHost is a host with bridges, by name.
type bridgeHost struct {
	fakeHost
	bridges map[string]netns.Bridge
	pinned  map[string]int
	// acceptRA is that of br0.
	acceptRA string
	err      error
}

func (h *bridgeHost) KeepBridge(string, int) (string, error) { return h.acceptRA, h.err }

func (h *bridgeHost) RestoreBridge(_, acceptRA string) error {
	h.acceptRA = acceptRA
	return nil
}

func (h *bridgeHost) LinkMTU(name string) (int, bool, error) {
	b, ok := h.bridges[name]
	return b.MTU, ok, h.err
}

func (h *bridgeHost) LinkMAC(name string) (string, bool, error) {
	_, ok := h.bridges[name]
	return "02:00:00:00:00:ff", ok, h.err
}

func (h *bridgeHost) FindBridge(name string) (netns.Bridge, bool, error) {
	b, ok := h.bridges[name]
	return b, ok, h.err
}

func (h *bridgeHost) PinMTU(bridge string, mtu int) error {
	h.pinned[bridge] = mtu
	return nil
}

// withBridges returns an engine on a host with bridges, with the network "n" on br0.
func withBridges(t *testing.T, bridges map[string]netns.Bridge) (*memory, *bridgeHost) {
	t.Helper()
	host := &bridgeHost{bridges: bridges, pinned: map[string]int{}}
	m := newMemory(t, func(c *Config) {
		c.Host = host
		c.Cleaner = cleanerFunc(nothingLeft)
	})
	m.network(t, "n", `{"type": "bridge", "bridge": "br0", "mtu": 1500, "capabilities": {"mtu": true}}`)
	return m, host
}

func choosingMTU(mtu int) Request {
	return Request{ID: "w1", Primary: &selection.Element{Name: "n", Interface: "eth0", MTU: mtu}}
}

// TestPinnedMTU: an attachment with a smaller MTU does not lower that of its bridge.
func TestPinnedMTU(t *testing.T) {
	for name, test := range map[string]struct {
		bridges map[string]netns.Bridge
		made    int // the MTU of the bridge that ADD makes
		mtu     int
		want    map[string]int
	}{
		"the network's MTU":       {map[string]netns.Bridge{"br0": {MTU: 1500}}, 0, 1500, map[string]int{}},
		"none is chosen":          {map[string]netns.Bridge{"br0": {MTU: 1500}}, 0, 0, map[string]int{}},
		"a bridge with ports":     {map[string]netns.Bridge{"br0": {MTU: 1450, Ports: 2}}, 0, 1400, map[string]int{"br0": 1450}},
		"a bridge without ports":  {map[string]netns.Bridge{"br0": {MTU: 1450}}, 0, 1400, map[string]int{"br0": 1500}},
		"one with a larger MTU":   {map[string]netns.Bridge{"br0": {MTU: 9000, Ports: 1}}, 0, 1400, map[string]int{"br0": 9000}},
		"a bridge that ADD makes": {map[string]netns.Bridge{}, 1400, 1400, map[string]int{"br0": 1500}},
	} {
		t.Run(name, func(t *testing.T) {
			m, host := withBridges(t, test.bridges)
			m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
				if c.Verb == "ADD" && test.made > 0 {
					host.bridges["br0"] = netns.Bridge{MTU: test.made, Ports: 1}
				}
				return false, nil, nil
			}
			if _, err := m.Setup(t.Context(), choosingMTU(test.mtu)); err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(host.pinned, test.want) {
				t.Errorf("pinned are %v, want %v", host.pinned, test.want)
			}
		})
	}
}

// TestUnpinnedMTU: a bridge that follows the port of an attachment which is not
// complete gets the MTU that this one wants.
func TestUnpinnedMTU(t *testing.T) {
	for name, test := range map[string]struct {
		phase state.Phase
		want  int
	}{"in flight": {state.Adding, 4000}, "pending": {state.Pending, 4000}, "attached": {state.Attached, 1450}} {
		m, host := withBridges(t, map[string]netns.Bridge{"br0": {MTU: 1450, Ports: 1}})
		record(t, m.Engine, "other", state.Attachment{Network: "n", Interface: "eth0", Batch: onrecord.SetupBatch, Phase: test.phase, BridgeMTU: map[string]int{"br0": 4000}})
		if _, err := m.Setup(t.Context(), choosingMTU(1400)); err != nil {
			t.Fatal(err)
		}
		if host.pinned["br0"] != test.want {
			t.Errorf("%s: pinned are %v, want %d", name, host.pinned, test.want)
		}
	}
}

// TestBridgeThatCannotBeAsked fails the attachment that depends on it.
func TestBridgeThatCannotBeAsked(t *testing.T) {
	m, host := withBridges(t, nil)
	host.err = errors.New("netlink: interrupted")
	if _, err := m.Setup(t.Context(), choosingMTU(1400)); !errors.Is(err, host.err) || len(recorded(t, m.Engine)) > 0 {
		t.Errorf("Setup: %v, on record are %v", err, recorded(t, m.Engine))
	}
}

// TestBridgeMACOfToday: CHECK gets the MAC that a bridge of the host has now, because
// a bridge without an address takes that of a port.
func TestBridgeMACOfToday(t *testing.T) {
	m, host := withBridges(t, map[string]netns.Bridge{})
	m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
		if c.Verb != "ADD" {
			return false, nil, nil
		}
		m.namespaces.add(c.Environ["CNI_NETNS"], netns.Interface{Name: "eth0", MAC: "02:00:00:00:00:02", MTU: 1500, Up: true})
		return true, []byte(`{"cniVersion": "1.1.0", "interfaces": [{"name": "br0", "mac": "02:00:00:00:00:01"},
			{"name": "veth1", "mac": "02:00:00:00:00:03"}, {"name": "eth0", "mac": "02:00:00:00:00:02", "sandbox": "/x"}]}`), nil
	}
	if _, err := m.Setup(t.Context(), choosingMTU(0)); err != nil {
		t.Fatal(err)
	}
	host.bridges["br0"] = netns.Bridge{}
	if _, err := m.Check(t.Context(), "w1"); err != nil {
		t.Fatal(err)
	}
	check := m.exec.calls[len(m.exec.calls)-1]
	for mac, want := range map[string]bool{"02:00:00:00:00:ff": true, "02:00:00:00:00:01": false, "02:00:00:00:00:03": true, "02:00:00:00:00:02": true} {
		if got := strings.Contains(string(check.Stdin), mac); got != want {
			t.Errorf("%s got %s: has %s: %t", check, check.Stdin, mac, got)
		}
	}
}

// TestAcceptRAOfBridges: a bridge that accepted router advertisements before plugins were executed accepts them again afterwards,
// also if the process was killed in between, and one that an operator has ignore them goes on so.
func TestAcceptRAOfBridges(t *testing.T) {
	for name, test := range map[string]struct {
		before, recorded string // recorded is what a killed process has left
		fails            error
		want             string
	}{
		"accepted":          {before: "1", want: "1"},
		"also by a router":  {before: "2", want: "2"},
		"ignored":           {before: "0", want: "0"},
		"ADD fails":         {before: "2", fails: errors.New("refused"), want: "2"},
		"after a kill":      {before: "0", recorded: "2", want: "2"},
		"set since a kill":  {before: "1", recorded: "2", want: "1"},
		"a host of no IPv6": {want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, host := withBridges(t, map[string]netns.Bridge{"br0": {MTU: 1500}})
			host.acceptRA = test.before
			if test.recorded != "" {
				if err := m.env.Store.Bridges().SetAcceptRA("br0", test.recorded); err != nil {
					t.Fatal(err)
				}
			}
			m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
				if c.Verb != "ADD" {
					return false, nil, nil
				}
				if had, err := m.env.Store.Bridges().AcceptRA("br0"); err != nil || test.want != "0" && had != test.want {
					t.Errorf("%q is on record when the plugin runs, %v", had, err)
				}
				if host.acceptRA != "" {
					host.acceptRA = "0"
				}
				return test.fails != nil, nil, test.fails
			}
			if _, err := m.Setup(t.Context(), choosingMTU(0)); (err != nil) != (test.fails != nil) {
				t.Fatal(err)
			}
			if had, err := m.env.Store.Bridges().AcceptRA("br0"); host.acceptRA != test.want || had != "" || err != nil {
				t.Errorf("accept_ra is %q, on record is still %q, %v", host.acceptRA, had, err)
			}
		})
	}
}

// TestTeardownRestoresAcceptRA: no further ADD is needed after a kill.
func TestTeardownRestoresAcceptRA(t *testing.T) {
	m, host := withBridges(t, map[string]netns.Bridge{"br0": {MTU: 1500}})
	if _, err := m.Setup(t.Context(), choosingMTU(0)); err != nil {
		t.Fatal(err)
	}
	host.acceptRA = "0"
	if err := errors.Join(m.env.Store.Bridges().SetAcceptRA("br0", "1"), m.Teardown(t.Context(), "w1")); err != nil {
		t.Fatal(err)
	}
	if had, err := m.env.Store.Bridges().AcceptRA("br0"); host.acceptRA != "1" || had != "" || err != nil {
		t.Errorf("accept_ra is %q, on record is still %q, %v", host.acceptRA, had, err)
	}
}
