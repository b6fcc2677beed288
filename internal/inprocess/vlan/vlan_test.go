// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package vlan

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/plugin"
)

// TestRefused: values that no kernel takes are refused before anything is made, and the error says what would be right.
func TestRefused(t *testing.T) {
	for keys, want := range map[string]string{
		`"master": "eno1"`:                  "",
		`"master": "eno1", "vlanId": 0`:     "",
		`"master": "eno1", "vlanId": 4094`:  "",
		`"master": "eno1", "vlanId": 4095`:  "vlanId 4095: want 0 to 4094",
		`"master": "eno1", "vlanId": -1`:    "vlanId -1: want 0 to 4094",
		`"vlanId": 5`:                       "master is missing",
		`"master": "eno1", "vlanId": "100"`: "cannot unmarshal",
	} {
		_, err := parse(&plugin.Call{Config: []byte("{" + keys + "}")})
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", keys, err, want)
		}
	}
}

// TestSecondInterface: what the kernel says of a VLAN that has its interface is explained, all else stays.
func TestSecondInterface(t *testing.T) {
	conf := &config{VLANID: 100}
	conf.Link = "eno1"
	taken := conf.explain(fmt.Errorf("failed to create vlan: %w", unix.EEXIST))
	if !errors.Is(taken, unix.EEXIST) || !strings.Contains(taken.Error(), "VLAN 100 of eno1") || !strings.Contains(taken.Error(), "macvlan") {
		t.Errorf("got %v", taken)
	}
	for _, err := range []error{nil, unix.EOPNOTSUPP} {
		if got := conf.explain(err); got != err { //nolint:errorlint // it is the same
			t.Errorf("%v became %v", err, got)
		}
	}
}
