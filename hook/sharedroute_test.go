// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"fmt"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/selection"
)

// TestSharedRoutes: two networks with the same route are refused, in one request and in a later one.
func TestSharedRoutes(t *testing.T) {
	for _, test := range []struct {
		first, second string
		refused       bool
	}{
		{`{"dst": "10.50.0.0/16"}`, `{"dst": "10.50.0.0/16"}`, true},
		{`{"dst": "10.50.0.0/16"}`, `{"dst": "10.50.7.9/16", "gw": "10.72.0.1"}`, true},
		{`{"dst": "fd50::/64"}`, `{"dst": "FD50:0::1/64", "priority": 0}`, true},
		{`{"dst": "fd50::/64"}`, `{"dst": "fd50::/64", "priority": 5}`, false},
		{`{"dst": "fd50::/64"}`, `{"dst": "fd50::/64", "table": 5}`, false},
		{`{"dst": "10.50.0.0/16"}`, `{"dst": "10.50.0.0/24"}`, false},
		{`{"dst": "0.0.0.0/0"}`, `{"dst": "0.0.0.0/0"}`, false},
	} {
		m := newMemory(t, nil)
		for name, route := range map[string]string{"one": test.first, "two": test.second} {
			m.network(t, name, fmt.Sprintf(`{"type": "bridge", "bridge": "b0", "ipam": {"type": "other", "routes": [%s]}}`, route), "other")
		}
		_, together := m.Setup(t.Context(), Request{ID: "a", Networks: []selection.Element{{Name: "one"}, {Name: "two"}}})
		if _, err := m.Setup(t.Context(), Request{ID: "b", Networks: []selection.Element{{Name: "one"}, {Name: "one"}}}); err != nil {
			t.Errorf("one network twice: %v", err)
		}
		_, later := m.Extend(t.Context(), Request{ID: "b", Networks: []selection.Element{{Name: "two"}}})
		for _, err := range []error{together, later} {
			if refused := errdefs.Of(err) == errdefs.Refused && strings.Contains(err.Error(), `is one of network "one" as net`); refused != test.refused || !refused && err != nil {
				t.Errorf("%s and %s: %v", test.first, test.second, err)
			}
		}
	}
}

// TestRouteToTheSubnetOfAnother: with IPv4 a route takes the place of that to the subnet of another network, in any order of the two.
func TestRouteToTheSubnetOfAnother(t *testing.T) {
	for route, refused := range map[string]bool{
		`{"dst": "10.3.0.9/24"}`: true, `{"dst": "10.3.0.0/24", "priority": 9}`: false, `{"dst": "10.3.0.0/25"}`: false, `{"dst": "fd00:3::/64"}`: false,
	} {
		for _, networks := range [][]selection.Element{named("near", "far"), named("far", "near"), named("near", "same")} {
			m := newMemory(t, nil)
			m.network(t, "near", `{"type": "bridge", "bridge": "b0", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.3.0.0/24"}], [{"subnet": "fd00:3::/64"}]]}}`, "host-local")
			m.network(t, "same", `{"type": "bridge", "bridge": "b1", "ipam": {"type": "host-local", "subnet": "10.3.0.0/24"}}`)
			m.network(t, "far", fmt.Sprintf(`{"type": "bridge", "bridge": "b2", "ipam": {"type": "host-local", "subnet": "10.7.0.0/24", "routes": [%s]}}`, route))
			_, err := m.Setup(t.Context(), Request{ID: "a", Networks: networks})
			if want := refused && networks[1].Name != "same"; (errdefs.Of(err) == errdefs.Refused) != want || !want && err != nil {
				t.Errorf("%s, %v: %v", route, networks, err)
			}
		}
	}
}
