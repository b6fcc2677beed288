// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
)

// TestInnerMaster: a plugin that ignores linkInContainer does not find the master on the
// host, or finds another one there. What it made is removed.
func TestInnerMaster(t *testing.T) {
	const hint = ": plugins older than 1.3.0 ignore linkInContainer: install newer CNI plugins"
	for name, test := range map[string]struct {
		master  string
		outside bool  // of the new interface
		err     error // of ADD
		want    string
	}{
		"in the namespace": {"eth0", false, nil, ""},
		"on the host":      {"eth0", true, nil, "took interface eth0 of the host as master, and not that of the namespace" + hint},
		"not on the host":  {"eth0", false, types.NewError(999, "Link not found", ""), "Link not found: the namespace has interface eth0" + hint},
		"nowhere":          {"eth7", false, types.NewError(999, "Link not found", ""), "Link not found"},
		"another error":    {"eth0", false, types.NewError(7, "no mode", ""), "no mode"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t, nil)
			m.network(t, "web", "bridge")
			m.network(t, "inner", fmt.Sprintf(`{"type": "macvlan", "master": %q, "linkInContainer": true}`, test.master))
			m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
				if c.Verb != "ADD" || c.Plugin != "macvlan" || test.err == nil && !test.outside {
					return false, nil, nil
				}
				if test.err == nil {
					m.namespaces.add(c.Environ["CNI_NETNS"], netns.Interface{Name: c.Environ["CNI_IFNAME"], Up: true, LinkOutside: test.outside})
				}
				return true, []byte(`{"cniVersion": "1.1.0"}`), test.err
			}
			_, err := m.Setup(t.Context(), Request{ID: "w1", Primary: &selection.Element{Name: "web", Interface: "eth0"}, Networks: []selection.Element{{Name: "inner"}}})
			if (err == nil) != (test.want == "") || err != nil && !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if deleted := slices.Contains(m.exec.names(), "DEL macvlan net1"); deleted != (test.want != "") {
				t.Errorf("DEL has run: %t", deleted)
			}
		})
	}
}

// TestInnerMasterOfAnotherPlugin: a plugin whose own link is missing says nothing about the one
// that has made the interface on the master of the namespace.
func TestInnerMasterOfAnotherPlugin(t *testing.T) {
	m := newMemory(t, nil)
	m.network(t, "web", "bridge")
	m.network(t, "inner", `{"type": "macvlan", "master": "eth0", "linkInContainer": true}`, "sriov")
	m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
		return c.String() == "ADD sriov net1", nil, types.NewError(999, "Link not found", "")
	}
	_, err := m.Setup(t.Context(), Request{ID: "w1", Primary: &selection.Element{Name: "web", Interface: "eth0"}, Networks: []selection.Element{{Name: "inner"}}})
	if err == nil || strings.Contains(err.Error(), "linkInContainer") {
		t.Errorf("got %v", err)
	}
}
