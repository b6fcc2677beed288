// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/selection"
)

// TestDifference: the error of another request says what differs.
func TestDifference(t *testing.T) {
	m := newMemory(t, nil)
	m.network(t, "web", "ipvlan")
	m.network(t, "sto", "ipvlan")
	web := &selection.Element{Name: "web"}
	if _, err := m.Setup(t.Context(), Request{ID: "b1", Primary: web}); err != nil {
		t.Fatal(err)
	}
	for want, r := range map[string]Request{
		"the request adds sto@net1; further networks are added by a request without a primary (allocnet attach b1 --networks sto)": {Primary: web, Networks: named("sto")},
		"the request adds sto@eth0; the request lacks web@eth0":                                                                    {Primary: &selection.Element{Name: "sto"}},
		"with other options, ports, arguments or another owner":                                                                    {Primary: web, Args: map[string]string{"K": "v"}},
		", and the request names /run/netns/other":                                                                                 {Primary: web, Netns: m.namespaces.create("/run/netns/other")},
	} {
		r.ID = "b1"
		if _, err := m.Setup(t.Context(), r); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
