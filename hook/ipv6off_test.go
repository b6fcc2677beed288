// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/selection"
)

// TestIPv6OffOnTheHost: the error of a plugin that could not add an IPv6 address says so, and no other does.
func TestIPv6OffOnTheHost(t *testing.T) {
	const bridge, ptp = `could not add IP address fd00:88::1/64 to "br0": permission denied`, "failed to add IP addr (x) to veth: permission denied"
	for name, test := range map[string]struct {
		plugin, text, off string
		want              bool
	}{
		"a bridge":        {"bridge", bridge, "cni0", true},
		"new links":       {"bridge", bridge, "default", true},
		"ptp":             {"ptp", ptp, "default", true},
		"another bridge":  {"bridge", bridge, "br0", false},
		"IPv6 is on":      {"ptp", ptp, "", false},
		"another refusal": {"ptp", "failed to open netns: permission denied", "default", false},
		"another error":   {"ptp", "failed to add IP addr (x) to veth: invalid argument", "default", false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t, func(*Config) {})
			m.host.withoutIPv6 = map[string]bool{test.off: true}
			m.network(t, "n", test.plugin)
			m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
				if c.Verb == "ADD" {
					return true, nil, errors.New(test.text)
				}
				return false, nil, nil
			}
			_, err := m.Setup(t.Context(), Request{ID: "w1", Primary: &selection.Element{Name: "n"}})
			if err == nil || strings.Contains(err.Error(), "IPv6 is switched off on the host") != test.want {
				t.Error(err)
			}
		})
	}
}
