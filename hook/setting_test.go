// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/selection"
)

const syncookies = "net/ipv4/tcp_syncookies"

// tunedMemory has networks a, b and c that set one parameter to 1, 2 and 3, and plugins tuning that do so and compare.
func tunedMemory(t *testing.T) (m *memory, path string) {
	t.Helper()
	m = newMemory(t, nil)
	path = m.namespaces.create("/run/netns/w1")
	for name, value := range map[string]string{"a": "1", "b": "2", "c": "3"} {
		m.network(t, name, "bridge", fmt.Sprintf(`{"type": "tuning", "sysctl": {"net.ipv4.tcp_syncookies": %q}}`, value))
	}
	m.exec.answer = func(_ context.Context, c fakeCall) (done bool, result []byte, err error) {
		var conf struct{ Sysctl map[string]string }
		if err := json.Unmarshal(c.Stdin, &conf); err != nil || c.Plugin != "tuning" {
			return false, nil, err
		}
		for _, value := range conf.Sysctl {
			switch c.Verb {
			case "ADD":
				err = m.namespaces.at[path].SetParameter(syncookies, value)
			case "CHECK":
				if has := m.parameter(path); has != value {
					return true, nil, types.NewError(types.ErrInternal, "the value is "+has+", want "+value, "")
				}
			}
		}
		return false, nil, err
	}
	return m, path
}

// parameter is what the namespace has.
func (m *memory) parameter(path string) string {
	m.namespaces.mu.Lock()
	defer m.namespaces.mu.Unlock()
	all := m.namespaces.at[path].parameters
	if len(all) == 0 {
		return ""
	}
	return strings.TrimPrefix(all[len(all)-1], syncookies+"=")
}

// TestLastNetworkSetsTheParameter: of networks that set one parameter the last one counts, for every check; when it is detached, the
// one before does again. It does not matter which is attached again, or detached with others.
func TestLastNetworkSetsTheParameter(t *testing.T) {
	m, path := tunedMemory(t)
	require := func(when, want string) {
		t.Helper()
		if got := m.parameter(path); got != want {
			t.Errorf("%s: it is %s, want %s", when, got, want)
		}
		if _, err := m.Check(t.Context(), "w1"); err != nil {
			t.Errorf("%s: check: %v", when, err)
		}
		if drifts, err := m.RepairAttachments(t.Context(), RepairRequest{}); err != nil || len(drifts) > 0 {
			t.Errorf("%s: repair: %+v, %v", when, drifts, err)
		}
		if err := m.Verify(t.Context(), Verification{ID: "w1", Netns: path, Interface: "net1"}); err != nil {
			t.Errorf("%s: CHECK: %v", when, err)
		}
	}
	for range 5 { // attachments that do not depend on each other begin in any order
		if _, err := m.Setup(t.Context(), Request{ID: "w1", Netns: path, Networks: named("a", "b", "c")}); err != nil {
			t.Fatal(err)
		}
		require("Setup", "3")
		m.exec.names() // the fake numbers addresses by its calls
		if err := m.Teardown(t.Context(), "w1"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Setup(t.Context(), Request{ID: "w1", Netns: path, Networks: named("a")}); err != nil {
		t.Fatal(err)
	}
	for _, further := range []selection.Element{{Name: "b", Interface: "net2"}, {Name: "c", Interface: "net3"}} {
		if _, err := m.Extend(t.Context(), Request{ID: "w1", Networks: []selection.Element{further}}); err != nil {
			t.Fatal(err)
		}
	}
	require("Attach", "3")
	m.namespaces.removeInterface(path, "net2")
	if drifts, err := m.RepairAttachments(t.Context(), RepairRequest{Mode: RepairReattach}); err != nil || len(drifts) != 1 || !drifts[0].Reattached {
		t.Fatalf("%+v, %v", drifts, err)
	}
	require("net2 again", "3")
	for _, step := range []struct{ iface, want string }{{"net3", "2"}, {"net2", "1"}} {
		if err := m.Detach(t.Context(), "w1", step.iface); err != nil {
			t.Fatal(err)
		}
		require("without "+step.iface, step.want)
	}
}

// TestParametersOfATask: what a task releases together leaves the value of what stays. A parameter that cannot be set keeps nothing attached.
func TestParametersOfATask(t *testing.T) {
	for name, test := range map[string]struct {
		failing, want string
	}{"set": {"", "1"}, "not set": {"SetParameter", "3"}} {
		m, path := tunedMemory(t)
		if _, err := m.Setup(t.Context(), Request{ID: "w1", Netns: path, Networks: named("a")}); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Extend(t.Context(), Request{ID: "w1", Netns: path, Task: "task", Networks: []selection.Element{{Name: "b", Interface: "net2"}, {Name: "c", Interface: "net3"}}}); err != nil {
			t.Fatal(err)
		}
		m.namespaces.fail = func(op, _ string) error {
			if op == test.failing {
				return errStuck
			}
			return nil
		}
		if err := m.Release(t.Context(), "w1", "task"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := m.parameter(path); got != test.want {
			t.Errorf("%s: it is %s, want %s", name, got, test.want)
		}
		if a, err := m.Status(t.Context(), "w1"); err != nil || len(a.Attachments) != 1 {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

// TestFurtherParameters: a parameter that cannot be set, as that of an interface that is missing, keeps no other one from coming back.
func TestFurtherParameters(t *testing.T) {
	m := newMemory(t, nil)
	path := m.namespaces.create("/run/netns/w1")
	for name, sysctl := range map[string]string{"own": `IFNAME.forwarding": "1"`, "all": `all.forwarding": "1"`, "none": `all.forwarding": "0"`} {
		m.network(t, name, "bridge", `{"type": "tuning", "sysctl": {"net.ipv4.conf.`+sysctl+`}}`)
	}
	if _, err := m.Setup(t.Context(), Request{ID: "w1", Netns: path, Networks: named("own", "all", "none")}); err != nil {
		t.Fatal(err)
	}
	m.namespaces.removeInterface(path, "net1")
	if err := m.Detach(t.Context(), "w1", "net3"); err != nil {
		t.Fatal(err)
	}
	set := m.namespaces.at[path].parameters
	if last, want := set[len(set)-1], "net/ipv4/conf/all/forwarding=1"; last != want {
		t.Errorf("it has set %v, want %s last", set, want)
	}
}

// TestReattachedBeforeItsSuccessor: a network is attached again though a later one, which sets one of its parameters for its own
// interface, has lost that and cannot be attached again.
func TestReattachedBeforeItsSuccessor(t *testing.T) {
	m := newMemory(t, nil)
	path := m.namespaces.create("/run/netns/w1")
	m.network(t, "first", "bridge", `{"type": "tuning", "sysctl": {"net.ipv4.conf.all.forwarding": "1"}}`)
	m.network(t, "second", "macvlan", `{"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.forwarding": "0"}}`)
	if _, err := m.Setup(t.Context(), Request{ID: "w1", Netns: path, Networks: named("first", "second")}); err != nil {
		t.Fatal(err)
	}
	m.namespaces.removeInterface(path, "net1")
	m.namespaces.removeInterface(path, "net2")
	m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
		return c.Plugin == "macvlan" && c.Verb == "ADD", nil, types.NewError(types.ErrInternal, "no master", "")
	}
	drifts, err := m.RepairAttachments(t.Context(), RepairRequest{Mode: RepairReattach})
	if err != nil {
		t.Fatal(err)
	}
	if got := m.namespaces.interfaces(path); !slices.Contains(got, "net1") {
		t.Errorf("the namespace has %v, want net1: %+v", got, drifts)
	}
}
