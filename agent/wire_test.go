// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/selection"
)

// requireFull fails for a zero field: a test of a conversion would not notice that
// the field is missing.
func requireFull(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	if v.IsZero() {
		t.Fatalf("%s is not set", path)
	}
	switch v.Kind() {
	case reflect.Pointer:
		requireFull(t, path, v.Elem())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct {
			requireFull(t, path+"[0]", v.Index(0))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() && field.Tag.Get("json") != "-" {
				requireFull(t, path+"."+field.Name, v.Field(i))
			}
		}
	}
}

func marshal(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestWireResponses holds the types of the API to the engine's: the JSON is the
// same, and no field is missing.
func TestWireResponses(t *testing.T) {
	created := time.Unix(1, 0).UTC()
	whole := &hook.Allocation{
		ID: "a", Identity: policy.Identity{Namespace: "n", Job: "j", Group: "g", Region: "r"}, Owner: "u", Netns: "/run/netns/a",
		Attachments: []hook.Attachment{{
			Network: "web", Interface: "eth0", Primary: true, Task: "t", Phase: hook.Missing, Missing: "interface gone",
			Observed: hook.Observed{
				Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.2/24")}, MAC: "02:00:00:00:00:01", MTU: 1500,
				Gateways: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
				DNS:      hook.DNS{Servers: []string{"a"}, Domain: "d", Searches: []string{"b"}, Options: []string{"c"}},
				Ports:    []hook.PortMapping{{HostPort: 1, ContainerPort: 2, Protocol: "tcp", HostIP: "192.0.2.1", LastHostPort: 9}},
			},
			Denied:   &allocation.Denied{Packets: 1, Bytes: 2, Forged: 3},
			Attempts: 1, Error: "e", Created: created, Result: json.RawMessage(`{"a":1}`),
		}},
		DNSSelection: "merge", DNS: hook.DNS{Servers: []string{"a"}, Domain: "d", Searches: []string{"b"}, Options: []string{"c"}},
		ResolvConf: "/etc/netns/a/resolv.conf", Created: created, Damaged: []string{"d"}, Error: "e",
	}
	known, err := (&scripted{}).Details(t.Context(), "known")
	if err != nil {
		t.Fatal(err)
	}
	collected := &hook.Collected{
		TornDown: []string{"a"}, Networks: []string{"web"}, Skipped: map[string]string{"a": "b"}, Postponed: map[string]string{"a": "b"},
	}
	for name, test := range map[string]struct{ engine, wire any }{
		"allocation": {whole, &api.Allocation{}},
		"details":    {&known[0], &allocation.Details{}},
		"collected":  {collected, &api.Collected{}},
	} {
		t.Run(name, func(t *testing.T) {
			requireFull(t, name, reflect.ValueOf(test.engine))
			engine := marshal(t, test.engine)
			if err := json.Unmarshal([]byte(engine), test.wire); err != nil {
				t.Fatal(err)
			}
			requireFull(t, name, reflect.ValueOf(test.wire))
			if wire := marshal(t, test.wire); engine != wire {
				t.Errorf("the engine has\n%s, the API\n%s", engine, wire)
			}
		})
	}
	bare, err := wireAllocation(&hook.Allocation{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if empty := marshal(t, bare); empty != `{"id":"","netns":"","attachments":[],"created":"0001-01-01T00:00:00Z"}` {
		t.Errorf("an allocation without attachments: %s", empty)
	}
}

// TestWireSelection holds the elements of a request to those of package selection.
func TestWireSelection(t *testing.T) {
	element := allocation.Element{
		Name: "web", Interface: "data0", IPs: []string{"10.0.0.2/24"}, MAC: "02:00:00:00:00:01", MTU: 1400,
		Bandwidth:    &allocation.Bandwidth{IngressRate: 1001, IngressBurst: 20002, EgressRate: 1003, EgressBurst: 20004},
		PortMappings: []allocation.ChosenPort{{HostPort: allocation.PortRange{First: 1, Last: 1}, ContainerPort: 2, Protocol: "tcp", HostIP: "192.0.2.1"}},
		DefaultRoute: []string{"10.0.0.1"}, CNIArgs: map[string]any{"a": "b"}, InfinibandGUID: "02:00:00:00:00:00:00:01", Ports: []string{"http"},
	}
	requireFull(t, "element", reflect.ValueOf(element))
	sent := marshal(t, api.Attach{Networks: api.Selection{element}})
	var body attachBody
	if err := json.Unmarshal([]byte(sent), &body); err != nil {
		t.Fatal(err)
	}
	requireFull(t, "body", reflect.ValueOf(body.Networks))
	if got := marshal(t, attachBody{Networks: body.Networks}); got != sent {
		t.Errorf("sent %s, read %s", sent, got)
	}
	if want, got := reflect.TypeFor[selection.Element]().NumField(), reflect.TypeFor[allocation.Element]().NumField(); got != want {
		t.Errorf("allocation.Element has %d fields, selection.Element %d", got, want)
	}
}

func TestSetupRequest(t *testing.T) {
	sent := api.Setup{
		Netns: "/run/netns/a", Identity: allocation.Identity{Namespace: "n", Job: "j", Group: "g", Region: "r"},
		Primary: api.Selection{{Name: "web"}}, Networks: api.Selection{{Name: "storage"}},
		Ports: []api.Port{{Label: "http", HostPort: 1, LastHostPort: 1, To: 2, HostIP: "192.0.2.1", Protocol: "tcp"}}, Args: map[string]string{"A": "b"},
		Ingress: "5432/tcp", Egress: "10.0.0.0/8, dns",
	}
	var body setupBody
	if err := json.Unmarshal([]byte(marshal(t, sent)), &body); err != nil {
		t.Fatal(err)
	}
	r, err := body.request("a")
	if err != nil {
		t.Fatal(err)
	}
	if r.ID != "a" || r.Netns != sent.Netns || r.Primary.Name != "web" || r.Networks[0].Name != "storage" || r.Args["A"] != "b" || r.Narrowing.Ingress != sent.Ingress || r.Narrowing.Egress != sent.Egress {
		t.Errorf("request %+v", r)
	}
	requireFull(t, "identity", reflect.ValueOf(r.Identity))
	requireFull(t, "ports", reflect.ValueOf(r.Ports))
	if r.Operator {
		t.Error("a client of the API is not the operator")
	}
	for text, want := range map[string]string{`{"ingress": ""}`: `ingress "": "": want parts`, `{"egress": "web"}`: `egress "web": "web": want a prefix`, `{}`: ""} {
		var body setupBody
		if err := json.Unmarshal([]byte(text), &body); err != nil {
			t.Fatal(err)
		}
		if _, err := body.request("a"); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
