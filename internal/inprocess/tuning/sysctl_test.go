// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package tuning

import (
	"fmt"
	"testing"
)

func TestDuplicateSysctls(t *testing.T) {
	for sysctl, want := range map[string]string{
		`{}`:                        "<nil>",
		`null`:                      "<nil>",
		`{"a": "1", "b": "1"}`:      "<nil>",
		`{"a": "1", "a": "2"}`:      "duplicated sysctl keys are not allowed",
		`{"a": "1", "\u0061": "1"}`: "duplicated sysctl keys are not allowed",
		`{"a": 1}`:                  "json: cannot unmarshal number into Go value of type string",
	} {
		if err := refuseDuplicateSysctls([]byte(`{"type": "tuning", "sysctl": ` + sysctl + `}`)); fmt.Sprint(err) != want {
			t.Errorf("%s: %v, want %s", sysctl, err, want)
		}
	}
	if err := refuseDuplicateSysctls([]byte(`{}`)); err != nil {
		t.Error(err)
	}
	if err := refuseDuplicateSysctls([]byte(`{"sysctl"`)); err == nil {
		t.Error("a configuration that ends early is no error")
	}
}

func TestRequireAllowed(t *testing.T) {
	allowed := []string{`^net\.ipv4\.conf\.IFNAME\.[a-z_]*$`, "somaxconn"}
	for key, want := range map[string]bool{
		"net.ipv4.conf.IFNAME.rp_filter": true,
		"net.core.somaxconn":             true,
		"net.ipv4.conf.eth0.rp_filter":   false,
	} {
		if err := requireAllowed([]string{key}, allowed); (err == nil) != want {
			t.Errorf("%s: %v, allowed: %v", key, err, want)
		}
	}
	if err := requireAllowed([]string{"x"}, []string{"("}); err == nil {
		t.Error("an invalid expression is no error")
	}
	if err := requireAllowed([]string{"x"}, nil); err == nil {
		t.Error("an empty list allows everything")
	}
}
