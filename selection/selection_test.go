// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package selection

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/portmap"
)

func TestBothFormsAgree(t *testing.T) {
	for short, long := range map[string]string{
		"storage":           `[{"name": "storage"}]`,
		"storage,mgmt@net5": `[{"name": "storage"}, {"name": "mgmt", "interface": "net5"}]`,
		" storage , mgmt ":  `[{"name": "storage"}, {"name": "mgmt"}]`,
		"one@eth1":          `{"name": "one", "interface": "eth1"}`,
		"":                  `[]`,
	} {
		a, errA := Parse(short)
		b, errB := Parse(long)
		if errA != nil || errB != nil || !cmp.Equal(a, b) {
			t.Errorf("%q gives %+v, %v; %s gives %+v, %v", short, a, errA, long, b, errB)
		}
	}
}

func TestParseJSON(t *testing.T) {
	got, err := Parse(`[{"name": "a", "interface": "net9", "ips": ["10.1.0.9/24", "fd00::9"], "mac": "02:00:00:00:00:01", "mtu": 1400,
		"bandwidth": {"ingressRate": 1000, "ingressBurst": 20000}, "portMappings": [{"hostPort": 80, "containerPort": 8080}],
		"default-route": ["10.1.0.1"], "cni-args": {"n": 9007199254740993}, "infiniband-guid": "02:00:00:00:00:00:00:01", "ports": ["http"]},
		{"name": "b", "default-route": []}]`)
	if err != nil {
		t.Fatal(err)
	}
	want := []Element{{
		Name: "a", Interface: "net9", IPs: []string{"10.1.0.9/24", "fd00::9"}, MAC: "02:00:00:00:00:01", MTU: 1400,
		Bandwidth: &Bandwidth{IngressRate: 1000, IngressBurst: 20000}, PortMappings: []PortMapping{{HostPort: allocation.PortRange{First: 80, Last: 80}, ContainerPort: 8080}},
		DefaultRoute: []string{"10.1.0.1"}, CNIArgs: map[string]any{"n": json.Number("9007199254740993")},
		InfinibandGUID: "02:00:00:00:00:00:00:01", Ports: []string{"http"},
	}, {Name: "b", DefaultRoute: []string{}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRefused(t *testing.T) {
	for name, test := range map[string]struct{ input, want string }{
		"empty item":        {"a,,b", `networks[1]: the network's name is missing`},
		"trailing comma":    {"a,", `networks[1]: the network's name is missing`},
		"path":              {"../a", `networks[0].name: "../a": want letters, digits, '_', '.' and '-', beginning with a letter or digit`},
		"interface missing": {"a@", `networks[0]: "a@": want an interface name after '@', as in mgmt@net5`},
		"interface long":    {"a@abcdefghijklmnop", `networks[0].interface: interface name "abcdefghijklmnop" has 16 bytes, want at most 15`},
		"interface slash":   {"a@b/c", `networks[0].interface: interface name "b/c": want letters, digits, '_', '.' and '-', beginning with a letter, a digit or '_'`},
		"interface dots":    {"a@..", `networks[0].interface: interface name "..": want letters, digits, '_', '.' and '-', beginning with a letter, a digit or '_'`},
		"interface colon":   {"a@b:c", `networks[0].interface: interface name "b:c": want letters, digits, '_', '.' and '-', beginning with a letter, a digit or '_'`},
		"interface space":   {"a@b c", `networks[0].interface: interface name "b c": want letters, digits, '_', '.' and '-', beginning with a letter, a digit or '_'`},
		"interface NUL":     {"a@b\x00c", `networks[0].interface: interface name "b\x00c": want letters, digits, '_', '.' and '-', beginning with a letter, a digit or '_'`},
		"interface pattern": {"a@net%d", `networks[0].interface: interface name "net%d": want letters, digits, '_', '.' and '-', beginning with a letter, a digit or '_'`},
		"interface option":  {"a@-j", `networks[0].interface: interface name "-j": want letters, digits, '_', '.' and '-', beginning with a letter, a digit or '_'`},
		"interface quote":   {"a@b\";x", `networks[0].interface: interface name "b\";x": want letters, digits, '_', '.' and '-', beginning with a letter, a digit or '_'`},
		"interface pair":    {"a@b;IP=1", `networks[0].interface: interface name "b;IP=1": want letters, digits, '_', '.' and '-', beginning with a letter, a digit or '_'`},
		"interface of all":  {"a@all", `networks[0].interface: interface name "all" is reserved: the kernel has the settings of all interfaces under it`},
		"host IP with zone": {`[{"name": "a", "portMappings": [{"hostPort": 80, "hostIP": "::1%x\nflush ruleset"}]}]`, `networks[0].portMappings[0]: port "80": host IP "::1%x\nflush ruleset": want an IPv4 or IPv6 address without a zone`},
		"not JSON":          {"[{", `networks: line 1, column 2: invalid JSON: the text ends before it is complete: a bracket, a brace or a quote is missing`},
		"missing quote":     {"[{\"name\": \"a\"},\n{name\": \"b\"}]", `networks: line 2, column 2: invalid JSON: invalid character 'n' looking for beginning of object key string`},
		"object ends":       {`{"name": "a"`, `networks: line 1, column 12: invalid JSON: the text ends before it is complete: a bracket, a brace or a quote is missing`},
		"object":            {`{"name": a}`, `networks: line 1, column 10: invalid JSON: invalid character 'a' looking for beginning of value`},
		"not a list":        {`[1]`, `networks[0]: is a JSON number, want object`},
		"after the end":     {`[{"name": "a"}] x`, `networks: line 1, column 17: invalid JSON: invalid character 'x' after top-level value`},
		"unknown key":       {`[{"name": "a"}, {"name": "b", "ip": "1.2.3.4"}]`, `networks[1]: "ip": unknown key: want name, interface, ips, mac, mtu, bandwidth, portMappings, default-route, cni-args, infiniband-guid, ports`},
		"key in capitals":   {`[{"NAME": "a"}]`, `networks[0]: "NAME": unknown key: want name, interface, ips, mac, mtu, bandwidth, portMappings, default-route, cni-args, infiniband-guid, ports`},
		"Kubernetes's key":  {`[{"name": "a", "namespace": "b"}]`, `networks[0]: "namespace": unknown key: want name, interface, ips, mac, mtu, bandwidth, portMappings, default-route, cni-args, infiniband-guid, ports`},
		"key twice":         {`[{"name": "a", "name": "b"}]`, `networks[0]: "name": duplicate key`},
		"argument twice":    {`[{"name": "a", "cni-args": {"a": [{"b": 1, "b": 2}]}}]`, `networks[0].cni-args.a[0]: "b": duplicate key`},
		"deep argument":     {`[{"name": "a", "cni-args": {"a": ` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}}]`, `networks[0]: want at most 32 objects and arrays within each other`},
		"no object":         {`[null]`, `networks[0]: want one JSON object`},
		"nested unknown":    {`[{"name": "a", "bandwidth": {"rate": 1}}]`, `networks[0].bandwidth: "rate": unknown key: want ingressRate, ingressBurst, egressRate, egressBurst`},
		"wrong type":        {`[{"name": "a", "mtu": "big"}]`, `networks[0].mtu: is a JSON string, want number`},
		"IP":                {`[{"name": "a", "ips": ["10.0.0.1", "10.0"]}]`, `networks[0].ips[1]: "10.0": want an IP address with or without prefix length, as in 10.1.0.9/24`},
		"IP with zone":      {`[{"name": "a", "ips": ["fe80::1%eth0"]}]`, `networks[0].ips[0]: "fe80::1%eth0": want an IP address with or without prefix length, as in 10.1.0.9/24`},
		"IP twice":          {`[{"name": "a", "ips": ["10.0.0.1", "10.0.0.1/24"]}]`, `networks[0].ips[1]: "10.0.0.1/24": duplicate address`},
		"MAC":               {`[{"name": "a", "mac": "zz"}]`, `networks[0].mac: "zz": want an Ethernet address, as in 02:00:00:00:00:01`},
		"MAC of a group":    {`[{"name": "a", "mac": "01:00:00:00:00:01"}]`, `networks[0].mac: "01:00:00:00:00:01": want a unicast address`},
		"MAC of 8 bytes":    {`[{"name": "a", "mac": "02:00:00:00:00:00:00:01"}]`, `networks[0].mac: "02:00:00:00:00:00:00:01": want an Ethernet address, as in 02:00:00:00:00:01`},
		"GUID":              {`[{"name": "a", "infiniband-guid": "02:00:00:00:00:01"}]`, `networks[0].infiniband-guid: "02:00:00:00:00:01": want an EUI-64, as in 02:00:00:00:00:00:00:01`},
		"MTU":               {`[{"name": "a", "mtu": 1279}]`, `networks[0].mtu: "1279": want at least 1280, and at most the network's MTU`},
		"burst alone":       {`[{"name": "a", "bandwidth": {"egressBurst": 1}}]`, `networks[0].bandwidth.egressBurst: "1": want egressRate too`},
		"burst too big":     {`[{"name": "a", "bandwidth": {"egressRate": 1000000000, "egressBurst": 34359738360}}]`, `networks[0].bandwidth.egressBurst: "34359738360": want at least 12176 bits, which is a packet of 1500 bytes, and at most 270 seconds of the rate and 24000000000 bits; or none, which is a tenth of a second`},
		"burst too long":    {`[{"name": "a", "bandwidth": {"ingressRate": 8000, "ingressBurst": 2160001}}]`, `networks[0].bandwidth.ingressBurst: "2160001": want at least 12176 bits, which is a packet of 1500 bytes, and at most 270 seconds of the rate and 24000000000 bits; or none, which is a tenth of a second`},
		"burst too small":   {`[{"name": "a", "bandwidth": {"ingressRate": 8000, "ingressBurst": 12175}}]`, `networks[0].bandwidth.ingressBurst: "12175": want at least 12176 bits, which is a packet of 1500 bytes, and at most 270 seconds of the rate and 24000000000 bits; or none, which is a tenth of a second`},
		"rate too small":    {`[{"name": "a", "bandwidth": {"ingressRate": 999}}]`, `networks[0].bandwidth.ingressRate: "999": want 1000 to 100000000000 bits per second`},
		"rate too big":      {`[{"name": "a", "bandwidth": {"egressRate": 100000000001}}]`, `networks[0].bandwidth.egressRate: "100000000001": want 1000 to 100000000000 bits per second`},
		"port":              {`[{"name": "a", "portMappings": [{"hostPort": 0}]}]`, `networks[0].portMappings[0]: port "0": host port "0": want 1 to 65535`},
		"port in the args":  {`[{"name": "a", "cni-args": {"PortMappings": [{"hostPort": 80}]}}]`, `networks[0].cni-args: "portMappings": want it as a key of the element, where it is validated`},
		"MTU in the args":   {`[{"name": "a", "cni-args": {"Mtu": 68}}]`, `networks[0].cni-args: "mtu": want it as a key of the element, where it is validated`},
		"label":             {`[{"name": "a", "ports": [""]}]`, `networks[0].ports[0]: want the label of a port`},
		"gateway":           {`[{"name": "a", "default-route": ["x"]}]`, `networks[0].default-route[0]: "x": want the address of a gateway, as in 10.1.0.1`},
		"two gateways":      {`[{"name": "a", "default-route": ["10.0.0.1", "10.0.0.2"]}]`, `networks[0].default-route[1]: "10.0.0.2": want at most one gateway for each of IPv4 and IPv6`},
		"65 networks":       {strings.Repeat("a,", 64) + "a", `networks: has 65 networks, want at most 64`},
		"too long":          {strings.Repeat("a", maxInput+1), `networks: has 65537 bytes, want at most 65536`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(test.input)
			var refused *Error
			if !errors.As(err, &refused) || got != nil {
				t.Fatalf("got %+v, %v, want an *Error", got, err)
			}
			if err.Error() != test.want {
				t.Errorf("got  %s\nwant %s", err, test.want)
			}
		})
	}
}

func TestParseElement(t *testing.T) {
	if e, err := ParseElement("backup", ""); err != nil || e.Name != "backup" {
		t.Errorf("empty: %+v, %v", e, err)
	}
	if e, err := ParseElement("backup", `{"interface": "net7"}`); err != nil || e.Name != "backup" || e.Interface != "net7" {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := ParseElement("backup", `{"name": "other"}`); err == nil || !strings.Contains(err.Error(), "networks.backup.name") {
		t.Errorf("another name: %v", err)
	}
	if _, err := ParseElement("backup", `[]`); err == nil {
		t.Error("a list was accepted")
	}
}

func TestAssign(t *testing.T) {
	interfaces := func(primary string, job, host []string) string {
		t.Helper()
		var first *Element
		if primary != "" {
			first = &Element{Name: primary}
		}
		all, err := Assign(first, elements(t, job), elements(t, host))
		if err != nil {
			return err.Error()
		}
		var names []string
		for _, e := range all {
			names = append(names, e.Interface)
		}
		return strings.Join(names, " ")
	}
	for _, test := range []struct {
		primary   string
		job, host []string
		want      string
	}{
		{"web", nil, nil, "eth0"},
		{"web", []string{"a", "b"}, nil, "eth0 net1 net2"},
		{"", []string{"a", "b"}, nil, "net1 net2"},
		{"web", []string{"a", "b@x", "c"}, nil, "eth0 net1 x net3"},
		{"web", []string{"a", "b"}, []string{"h", "i"}, "eth0 net1 net2 net3 net4"},
		{"web", []string{"a"}, []string{"h", "i"}, "eth0 net1 net2 net3"},
		{"web", []string{"a", "b@net1"}, nil, "eth0 net3 net1"},
		{"web", []string{"a", "b@net3"}, []string{"h"}, "eth0 net1 net3 net4"},
		{"web", []string{"a@eth0"}, nil, `networks[0].interface: "eth0": already assigned to the primary`},
		{"web", []string{"a@x"}, []string{"h@x"}, `defaults[0].interface: "x": already assigned to networks[0]`},
	} {
		if got := interfaces(test.primary, test.job, test.host); got != test.want {
			t.Errorf("job %v, host %v: %s, want %s", test.job, test.host, got, test.want)
		}
	}
}

// TestDuplicateAddress: two elements cannot request the same address of one network, and
// can of different ones.
func TestDuplicateAddress(t *testing.T) {
	storage := func(ips ...string) Element { return Element{Name: "storage", IPs: ips} }
	const first, second = "10.1.0.9", "10.1.0.9/24"
	for _, test := range []struct {
		primary   *Element
		job, host []Element
		want      string
	}{
		{nil, []Element{storage(first), storage("10.1.0.8/24", second)}, nil, `networks[1].ips[1]: "10.1.0.9/24": networks[0].ips[0] requests this address of network "storage" already`},
		{&Element{Name: "storage", IPs: []string{first}}, []Element{storage(second)}, nil, `networks[0].ips[0]: "10.1.0.9/24": primary.ips[0] requests this address of network "storage" already`},
		{nil, []Element{storage("fd00::9")}, []Element{storage("fd00:0::9/64")}, `defaults[0].ips[0]: "fd00:0::9/64": networks[0].ips[0] requests this address of network "storage" already`},
		{nil, []Element{storage(first), {Name: "backup", IPs: []string{second}}}, nil, ""},
		{nil, []Element{storage(first), storage("10.1.0.10"), storage()}, nil, ""},
	} {
		got := ""
		if _, err := Assign(test.primary, test.job, test.host); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s, want %s", got, test.want)
		}
	}
	var refused *Error
	if _, err := AssignFurther(nil, 0, []Element{storage(first), storage(second)}); !errors.As(err, &refused) || refused.Position != "networks[1].ips[0]" {
		t.Errorf("further elements: %v", err)
	}
}

func elements(t *testing.T, names []string) []Element {
	t.Helper()
	list, err := Parse(strings.Join(names, ","))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestBind(t *testing.T) {
	n := network(t, `{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "bridge", "mtu": 1500, "capabilities": {"ips": true, "mac": true}}, {"type": "portmap", "capabilities": {"portMappings": true}}]}`)
	e := Element{Name: "a", IPs: []string{"10.0.0.1/24"}, MAC: "02:00:00:00:00:01", MTU: 1400, PortMappings: []PortMapping{{HostPort: allocation.PortRange{First: 90, Last: 90}}}}
	b, err := Bind(e, n, []portmap.Port{{Label: "http", HostPort: 80, Protocol: "tcp"}}, cniconf.Edit{Marker: []byte(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(b.CapabilityArgs)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"ips":["10.0.0.1/24"],"mac":"02:00:00:00:00:01","portMappings":[{"containerPort":80,"hostPort":80,"protocol":"tcp"},{"containerPort":90,"hostPort":90,"protocol":"tcp"}]}`
	if string(got) != want {
		t.Errorf("capability args\n%s\nwant\n%s", got, want)
	}
	if !strings.Contains(string(b.ConfList), `"mtu":1400`) || len(b.Mappings) != 2 {
		t.Errorf("conflist %s, mappings %v", b.ConfList, b.Mappings)
	}
}

func TestBindUnsupported(t *testing.T) {
	n := network(t, `{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "bridge", "capabilities": {"ips": false, "dns": true}}]}`)
	for capability, e := range map[string]Element{
		"ips":            {IPs: []string{"10.0.0.1"}},
		"mac":            {MAC: "02:00:00:00:00:01"},
		"bandwidth":      {Bandwidth: &Bandwidth{}},
		"infinibandGUID": {InfinibandGUID: "02:00:00:00:00:00:00:01"},
		"portMappings":   {PortMappings: []PortMapping{{HostPort: allocation.PortRange{First: 80, Last: 80}}}},
	} {
		_, err := Bind(e, n, nil, cniconf.Edit{})
		if errdefs.Of(err) != errdefs.Refused || !strings.Contains(err.Error(), fmt.Sprintf("the capability %q (declared: dns)", capability)) {
			t.Errorf("%s: got %v", capability, err)
		}
	}
}

func network(t *testing.T, text string) *cniconf.Network {
	t.Helper()
	list, err := libcni.NetworkConfFromBytes([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &cniconf.Network{Name: list.Name, List: list}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"storage,mgmt@net5", `[{"name": "a", "ips": ["10.0.0.1/24"]}]`, `{"name": "a", "default-route": []}`,
		`[{"name": "a", "portMappings": [{"hostPort": 80, "hostIP": "fe80::1"}], "cni-args": {"a": [1e9]}, "ports": ["x"]}]`, "a@", "[", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input string) {
		got, err := Parse(input)
		var refused *Error
		if err != nil && (got != nil || !errors.As(err, &refused)) {
			t.Fatalf("%q: result %v with error %v", input, got, err)
		}
		plain := regexp.MustCompile(`^[\w.-]*$`)
		for _, e := range got {
			if !plain.MatchString(e.Name+e.Interface) || len(e.Interface) > 15 || strings.Trim(e.Interface, ".") == "" && e.Interface != "" {
				t.Errorf("%q: accepted %+v", input, e)
			}
			for _, m := range e.PortMappings {
				if m.HostIP != "" && net.ParseIP(m.HostIP) == nil {
					t.Errorf("%q: accepted host IP %q, which the portmap plugin cannot read", input, m.HostIP)
				}
			}
		}
		data, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(string(data))
		if len(got) > 0 && (err != nil || fmt.Sprint(again) != fmt.Sprint(got)) {
			t.Errorf("%q: written as %s it reads as %v, %v", input, data, again, err)
		}
	})
}

func TestAssignFurther(t *testing.T) {
	got, err := AssignFurther([]string{"lo", "eth0", "net2"}, 2, []Element{{Name: "a"}, {Name: "b", Interface: "net3"}, {Name: "c"}, {Name: "d", Interface: "eth0"}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range got {
		names = append(names, e.Interface)
	}
	if want := "net1 net3 net4 eth0"; strings.Join(names, " ") != want {
		t.Errorf("got %v, want %s", names, want)
	}
	for name, test := range map[string]struct {
		existing int
		elements []Element
		position string
	}{
		"too many": {maxNetworks, []Element{{Name: "a"}}, "networks"},
		"twice":    {0, []Element{{Name: "a", Interface: "x"}, {Name: "b", Interface: "x"}}, "networks[1].interface"},
		"bad":      {0, []Element{{Name: "a"}, {Name: "b", MTU: 1}}, "networks[1].mtu"},
	} {
		var refused *Error
		if _, err := AssignFurther(nil, test.existing, test.elements); !errors.As(err, &refused) || refused.Position != test.position {
			t.Errorf("%s: %v, want an error at %s", name, err, test.position)
		}
	}
}
