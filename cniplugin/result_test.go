// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"
	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/cniexec"
	"github.com/allocnet/allocnet/policy"
)

// TestResult converts the result to every version. Indexes of interfaces stay correct.
func TestResult(t *testing.T) {
	a := &hook.Allocation{Attachments: []hook.Attachment{
		{Network: "web", Primary: true, Result: json.RawMessage(`{"cniVersion": "0.4.0", "interfaces": [{"name": "web0"}, {"name": "eth0", "sandbox": "/x"}], "ips": [{"version": "4", "interface": 1, "address": "10.0.0.2/24"}], "dns": {}}`)},
		{Network: "storage", Result: json.RawMessage(`{"cniVersion": "1.1.0", "interfaces": [{"name": "st0"}, {"name": "net1", "sandbox": "/x"}], "ips": [{"interface": 1, "address": "10.1.0.2/24"}], "routes": [{"dst": "10.5.0.0/16", "gw": "10.1.0.1"}], "dns": {"nameservers": ["10.1.0.1"]}}`)},
	}, DNSSelection: "storage", DNS: hook.DNS{Servers: []string{"10.1.0.1", "10.1.0.2"}}}
	for _, what := range []string{"primary", "all"} {
		for _, asked := range version.VersionsStartingFrom("0.3.0").SupportedVersions() {
			r := &request{conf: good(t, fmt.Sprintf(`"primary": "web", "result": %q`, what))}
			result, err := r.result(a)
			if err != nil {
				t.Fatal(err)
			}
			converted, err := result.GetAsVersion(asked)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(converted)
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				CNIVersion string
				Interfaces []struct{ Name string }
				IPs        []struct {
					Address   string
					Interface int
				}
				DNS types.DNS
			}
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			named := map[string]string{}
			for _, ip := range got.IPs {
				named[ip.Address] = got.Interfaces[ip.Interface].Name
			}
			all := what == "all"
			if got.CNIVersion != asked || named["10.0.0.2/24"] != "eth0" || (named["10.1.0.2/24"] == "net1") != all || len(got.DNS.Nameservers) != 2 {
				t.Errorf("%s in %s: %s", what, asked, text)
			}
		}
	}
}

// TestDNSOfChain: the plugins earlier in the chain made the primary network.
func TestDNSOfChain(t *testing.T) {
	previous := types.DNS{Nameservers: []string{"10.0.0.1"}, Domain: "web.example"}
	extra := hook.DNS{Servers: []string{"10.1.0.1"}, Searches: []string{"storage.example"}}
	for name, test := range map[string]struct {
		selection string
		selected  hook.DNS
		want      types.DNS
	}{
		"no extra networks":     {want: previous},
		"primary":               {selection: "primary", want: previous},
		"merge":                 {selection: "merge", selected: extra, want: types.DNS{Nameservers: []string{"10.0.0.1", "10.1.0.1"}, Domain: "web.example", Search: []string{"web.example", "storage.example"}}},
		"a network":             {selection: "storage", selected: extra, want: types.DNS{Nameservers: []string{"10.1.0.1"}, Search: []string{"storage.example"}}},
		"a network without DNS": {selection: "storage"},
	} {
		t.Run(name, func(t *testing.T) {
			got := dns(&hook.Allocation{DNSSelection: test.selection, DNS: test.selected}, previous)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestResultOfChain(t *testing.T) {
	r := &request{conf: good(t, `"prevResult": {"cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": "/x"}], "ips": [{"interface": 0, "address": "10.0.0.2/24"}]}`)}
	result, err := r.result(&hook.Allocation{})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(result)
	if !strings.Contains(string(text), `"address":"10.0.0.2/24"`) || !strings.Contains(string(text), `"name":"eth0"`) {
		t.Errorf("the result of the earlier plugins is missing: %s", text)
	}
}

func TestError(t *testing.T) {
	full := &hook.Error{Op: "attach", Allocation: "a1", Network: "storage", Interface: "net1", Attempts: 3,
		Err: types.NewError(101, "no IP addresses available in range set: 10.0.0.1-10.0.0.2", "")}
	got := cniError(errors.Join(full, errors.New("undo: it\nfailed")))
	if got.Code != 101 || strings.Contains(got.Msg, "\n") {
		t.Errorf("got code %d, %q", got.Code, got.Msg)
	}
	for _, word := range []string{"storage", "net1", "in use", "undo"} {
		if !strings.Contains(got.Msg, word) {
			t.Errorf("%q does not say %q", got.Msg, word)
		}
	}
	for _, test := range []struct {
		err  error
		code uint
	}{
		{&policy.DeniedError{}, 7}, {fmt.Errorf("x: %w", hook.ErrExists), 101}, {&cniexec.TimeoutError{}, 11}, {errors.New("x"), 999},
	} {
		if got := cniError(test.err); got.Code != test.code {
			t.Errorf("%v: code %d, want %d", test.err, got.Code, test.code)
		}
	}
}
