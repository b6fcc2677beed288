// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// TestResultWithoutItsInterface: ADD succeeds, and an interface that its result has in the namespace is not
// there. Everything is removed again. Interfaces of the host, sockets and devices are none in the namespace.
func TestResultWithoutItsInterface(t *testing.T) {
	const eth0 = `{"name": "eth0", "sandbox": "/x"}`
	for name, test := range map[string]struct {
		interfaces string
		missing    string
	}{
		"there":                       {eth0, ""},
		"with one of the host":        {`{"name": "br9"}, ` + eth0, ""},
		"another one is not there":    {eth0 + `, {"name": "eth1", "sandbox": "/x"}`, "eth1"},
		"none is there":               {`{"name": "other", "sandbox": "/x"}`, "other"},
		"one of a socket":             {eth0 + `, {"name": "net7", "sandbox": "/x", "socketPath": "/run/s"}`, ""},
		"one of a device":             {eth0 + `, {"name": "net7", "sandbox": "/x", "pciID": "0000:01:00.0"}`, ""},
		"without interfaces":          {"", ""},
		"named as one of the host is": {`{"name": "eth9", "sandbox": ""}, {"name": "eth9", "sandbox": "/x"}`, "eth9"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t, nil)
			m.network(t, "web", "bridge")
			m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
				if c.Verb == "ADD" {
					m.namespaces.add(c.Environ["CNI_NETNS"], netns.Interface{Name: "eth0", Up: true})
				}
				return c.Verb == "ADD", []byte(`{"cniVersion": "1.1.0", "interfaces": [` + test.interfaces + `]}`), nil
			}
			_, err := m.Setup(t.Context(), Request{ID: "a", Primary: &selection.Element{Name: "web", Interface: "eth0"}})
			if test.missing == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), "report interface "+test.missing+" in the namespace, and it is not there") {
				t.Errorf("got %v", err)
			}
			if calls := strings.Join(m.exec.names(), " "); !strings.Contains(calls, "DEL") || len(recorded(t, m.Engine)) > 0 {
				t.Errorf("called %s, on record are %v", calls, recorded(t, m.Engine))
			}
		})
	}
}

// TestAttachedWithoutInterface: some plugins make no interface of the kernel with the name, as those of a socket and loopback do.
// The attachment is neither missing nor broken.
func TestAttachedWithoutInterface(t *testing.T) {
	for name, interfaces := range map[string]string{
		"none":        ``,
		"of a socket": `{"name": "net1", "sandbox": "/x", "socketPath": "/run/s"}`,
		"of a device": `{"name": "net1", "sandbox": "/x", "pciID": "0000:01:00.0"}`,
		"another one": `{"name": "lo", "sandbox": "/x"}`,
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t, nil)
			m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
				if c.Verb == "ADD" {
					m.namespaces.add(c.Environ["CNI_NETNS"], loopback)
				}
				return c.Verb == "ADD", []byte(`{"cniVersion": "1.1.0", "interfaces": [` + interfaces + `]}`), nil
			}
			m.network(t, "a", "x")
			a, err := m.Setup(t.Context(), Request{ID: "w1", Networks: named("a")})
			if err != nil {
				t.Fatal(err)
			}
			if n := m.Current(a).Attachments[0]; n.Phase != state.Attached {
				t.Errorf("the phase is %s: %s", n.Phase, n.Missing)
			}
			if checked, err := m.Check(t.Context(), "w1"); err != nil {
				t.Errorf("check: %+v, %v", checked, err)
			}
		})
	}
}
