// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package portmap

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/containerd/go-cni"
	"github.com/google/go-cmp/cmp"
)

func TestMappings(t *testing.T) {
	for name, test := range map[string]struct {
		ports   []Port
		options Options
		want    []cni.PortMapping
	}{
		"none":               {},
		"to is the host's":   {[]Port{{Label: "a", HostPort: 80, Protocol: "tcp"}}, Options{}, []cni.PortMapping{{HostPort: 80, ContainerPort: 80, Protocol: "tcp"}}},
		"both protocols":     {[]Port{{Label: "a", HostPort: 80, To: 8080}}, Options{}, []cni.PortMapping{{HostPort: 80, ContainerPort: 8080, Protocol: "tcp"}, {HostPort: 80, ContainerPort: 8080, Protocol: "udp"}}},
		"host IP is kept":    {[]Port{{Label: "a", HostPort: 80, HostIP: "10.0.0.1", Protocol: "tcp"}}, Options{}, []cni.PortMapping{{HostPort: 80, ContainerPort: 80, Protocol: "tcp", HostIP: "10.0.0.1"}}},
		"host IP is ignored": {[]Port{{Label: "a", HostPort: 80, HostIP: "10.0.0.1", Protocol: "tcp"}}, Options{IgnoreHostIP: true}, []cni.PortMapping{{HostPort: 80, ContainerPort: 80, Protocol: "tcp"}}},
		"sorted": {
			[]Port{{Label: "b", HostPort: 90, Protocol: "udp"}, {Label: "a", HostPort: 80, HostIP: "10.0.0.2", Protocol: "tcp"}, {Label: "c", HostPort: 80, HostIP: "10.0.0.1", Protocol: "tcp"}},
			Options{},
			[]cni.PortMapping{{HostPort: 80, ContainerPort: 80, Protocol: "tcp", HostIP: "10.0.0.1"}, {HostPort: 80, ContainerPort: 80, Protocol: "tcp", HostIP: "10.0.0.2"}, {HostPort: 90, ContainerPort: 90, Protocol: "udp"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := append([]Port{}, test.ports...)
			got, err := Mappings(test.ports, test.options)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if !cmp.Equal(before, append([]Port{}, test.ports...)) {
				t.Error("the input was changed")
			}
		})
	}
}

func TestConflicts(t *testing.T) {
	for name, test := range map[string]struct {
		a, b     Port
		conflict bool
	}{
		"same port":           {Port{HostPort: 80}, Port{HostPort: 80}, true},
		"other port":          {Port{HostPort: 80}, Port{HostPort: 81}, false},
		"other protocol":      {Port{HostPort: 80, Protocol: "tcp"}, Port{HostPort: 80, Protocol: "udp"}, false},
		"both and one":        {Port{HostPort: 80}, Port{HostPort: 80, Protocol: "udp"}, true},
		"other addresses":     {Port{HostPort: 80, HostIP: "10.0.0.1"}, Port{HostPort: 80, HostIP: "10.0.0.2"}, false},
		"all of IPv4":         {Port{HostPort: 80, HostIP: "0.0.0.0"}, Port{HostPort: 80, HostIP: "10.0.0.2"}, true},
		"all of IPv6":         {Port{HostPort: 80, HostIP: "::"}, Port{HostPort: 80, HostIP: "10.0.0.2"}, false},
		"all":                 {Port{HostPort: 80}, Port{HostPort: 80, HostIP: "fd00::1"}, true},
		"one address written": {Port{HostPort: 80, HostIP: "fd00::1"}, Port{HostPort: 80, HostIP: "fd00:0::1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			test.a.Label, test.b.Label = "a", "b"
			_, err := Mappings([]Port{test.a, test.b}, Options{})
			var conflict *ConflictError
			if errors.As(err, &conflict) != test.conflict {
				t.Errorf("got %v, want a conflict: %t", err, test.conflict)
			}
		})
	}
}

func TestInvalidPorts(t *testing.T) {
	for name, test := range map[string]struct {
		port Port
		word string
	}{
		"host port 0":       {Port{}, "host port"},
		"host port too big": {Port{HostPort: 65536}, "65536"},
		"to negative":       {Port{HostPort: 80, To: -1}, "to"},
		"to too big":        {Port{HostPort: 80, To: 65536}, "65536"},
		"protocol":          {Port{HostPort: 80, Protocol: "TCP"}, "TCP"},
		"host IP":           {Port{HostPort: 80, HostIP: "localhost"}, "localhost"},
		"zone":              {Port{HostPort: 80, HostIP: "fe80::1%x -j ACCEPT"}, "without a zone"},
	} {
		t.Run(name, func(t *testing.T) {
			test.port.Label = "a"
			_, err := Mappings([]Port{test.port}, Options{})
			var invalid *InvalidPortError
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), test.word) {
				t.Errorf("got %v, want *InvalidPortError with %q", err, test.word)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]Port{
		"8080":                     {Label: "8080", HostPort: 8080},
		"8080:80":                  {Label: "8080", HostPort: 8080, To: 80},
		"8080:80/udp":              {Label: "8080", HostPort: 8080, To: 80, Protocol: "udp"},
		"http=8080:80/tcp":         {Label: "http", HostPort: 8080, To: 80, Protocol: "tcp"},
		"127.0.0.1:8080":           {Label: "8080", HostPort: 8080, HostIP: "127.0.0.1"},
		"127.0.0.1:8080:80":        {Label: "8080", HostPort: 8080, To: 80, HostIP: "127.0.0.1"},
		"a=[fd00::1]:8080:80/sctp": {Label: "a", HostPort: 8080, To: 80, HostIP: "fd00::1", Protocol: "sctp"},
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "0", "80:0", "80:x", "80/", "80/icmp", "=80", "80:80:80", "1.2.3:80", "-1", "80 "} {
		_, err := Parse(text)
		var invalid *InvalidPortError
		if !errors.As(err, &invalid) {
			t.Errorf("%q: got %v, want *InvalidPortError", text, err)
		}
	}
}

func TestMergeAndSelect(t *testing.T) {
	shared := []Port{{Label: "a", HostPort: 1}}
	merged := Merge(shared, []Port{{Label: "a", HostPort: 2}, {Label: "b", HostPort: 3}})
	if diff := cmp.Diff([]Port{{Label: "a", HostPort: 1}, {Label: "b", HostPort: 3}}, merged); diff != "" {
		t.Error(diff)
	}
	taken, rest, err := Select(merged, []string{"b"})
	if err != nil || !cmp.Equal(taken, merged[1:]) || !cmp.Equal(rest, merged[:1]) {
		t.Errorf("took %v, left %v, %v", taken, rest, err)
	}
	_, rest, err = Select(merged, []string{"c"})
	var unknown *UnknownLabelError
	if !errors.As(err, &unknown) || !strings.Contains(err.Error(), "a, b") || len(rest) != 2 {
		t.Errorf("got %v, left %v", err, rest)
	}
}

func TestCapability(t *testing.T) {
	got := Capability([]cni.PortMapping{{HostPort: 80, ContainerPort: 8080, Protocol: "tcp", HostIP: "10.0.0.1"}, {HostPort: 81, ContainerPort: 81, Protocol: "udp"}})
	want := []map[string]any{
		{"hostPort": int32(80), "containerPort": int32(8080), "protocol": "tcp", "hostIP": "10.0.0.1"},
		{"hostPort": int32(81), "containerPort": int32(81), "protocol": "udp"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// FuzzParse: what a person writes as a port is one, and stays it.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"8080", "http=10.0.0.1:8080:80/tcp", "[fe80::1%x]:1", "=1", "1:2:3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			return
		}
		mappings, err := Mappings([]Port{p}, Options{})
		if err != nil || len(mappings) == 0 {
			t.Fatalf("%q is %+v, which gives %v, %v", text, p, mappings, err)
		}
		for _, m := range mappings {
			if m.HostPort < 1 || m.HostPort > 65535 || m.ContainerPort < 1 || m.ContainerPort > 65535 || m.HostIP != "" && net.ParseIP(m.HostIP) == nil {
				t.Errorf("%q is mapped as %+v", text, m)
			}
		}
	})
}
