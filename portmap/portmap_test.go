// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package portmap

import (
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/internal/errdefs"
)

func TestMappings(t *testing.T) {
	for name, test := range map[string]struct {
		ports []Port
		want  []Mapping
	}{
		"none":             {},
		"to is the host's": {[]Port{{Label: "a", HostPort: 80, Protocol: "tcp"}}, []Mapping{{HostPort: 80, ContainerPort: 80, Protocol: "tcp"}}},
		"both protocols":   {[]Port{{Label: "a", HostPort: 80, To: 8080}}, []Mapping{{HostPort: 80, ContainerPort: 8080, Protocol: "tcp"}, {HostPort: 80, ContainerPort: 8080, Protocol: "udp"}}},
		"host IP is kept":  {[]Port{{Label: "a", HostPort: 80, HostIP: "10.0.0.1", Protocol: "tcp"}}, []Mapping{{HostPort: 80, ContainerPort: 80, Protocol: "tcp", HostIP: "10.0.0.1"}}},
		"sorted": {
			[]Port{{Label: "b", HostPort: 90, Protocol: "udp"}, {Label: "a", HostPort: 80, HostIP: "10.0.0.2", Protocol: "tcp"}, {Label: "c", HostPort: 80, HostIP: "10.0.0.1", Protocol: "tcp"}},
			[]Mapping{{HostPort: 80, ContainerPort: 80, Protocol: "tcp", HostIP: "10.0.0.1"}, {HostPort: 80, ContainerPort: 80, Protocol: "tcp", HostIP: "10.0.0.2"}, {HostPort: 90, ContainerPort: 90, Protocol: "udp"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := append([]Port{}, test.ports...)
			got, err := Mappings(test.ports)
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
		"one, and all":        {Port{HostPort: 80, HostIP: "fd00::1"}, Port{HostPort: 80}, true},
		"one address written": {Port{HostPort: 80, HostIP: "fd00::1"}, Port{HostPort: 80, HostIP: "fd00:0::1"}, true},
		"IPv4 in IPv6":        {Port{HostPort: 80, HostIP: "::ffff:10.0.0.2"}, Port{HostPort: 80, HostIP: "10.0.0.2"}, true},
		"all of IPv4 in IPv6": {Port{HostPort: 80, HostIP: "::ffff:0.0.0.0"}, Port{HostPort: 80, HostIP: "10.0.0.2"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			test.a.Label, test.b.Label = "a", "b"
			_, err := Mappings([]Port{test.a, test.b})
			if (errdefs.Of(err) == errdefs.Refused) != test.conflict {
				t.Errorf("got %v, want a conflict: %t", err, test.conflict)
			}
		})
	}
	_, err := Mappings([]Port{{Label: "a", HostPort: 80, To: 8080, HostIP: "10.0.0.1"}, {Label: "b", HostPort: 80, Protocol: "udp"}})
	if want := "host port 80/udp is mapped twice: to 80 from all addresses and to 8080 from 10.0.0.1"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// ports returns chosen ports of UDP.
func ports(text string) allocation.ChosenPort {
	r, err := allocation.ParsePortRange(text)
	if err != nil {
		panic(err)
	}
	return allocation.ChosenPort{HostPort: r, Protocol: "udp"}
}

// TestRanges: a range is one mapping, and overlaps as a whole with others.
func TestRanges(t *testing.T) {
	got, err := Mappings([]Port{{Label: "a", HostPort: 90, Protocol: "udp"}}, ports("10000-10199"), ports("80"))
	want := []Mapping{
		{HostPort: 80, ContainerPort: 80, Protocol: "udp"}, {HostPort: 90, ContainerPort: 90, Protocol: "udp"},
		{HostPort: 10000, LastHostPort: 10199, ContainerPort: 10000, Protocol: "udp"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	shifted := ports("10-12")
	shifted.ContainerPort = 20
	if _, err := Mappings(nil, shifted); errdefs.Of(err) != errdefs.Refused || !strings.Contains(err.Error(), `port "10-12": containerPort "20": omit it`) {
		t.Errorf("a range that is shifted: %v", err)
	}
	same := want[2:]
	if got, err := Mappings([]Port{{Label: "a", HostPort: 10000, LastHostPort: 10199, To: 10000, Protocol: "udp"}}); !cmp.Equal(got, same) || err != nil {
		t.Errorf("of an operator: %v, %v, want %v", got, err, same)
	}
	for wrong, p := range map[string]Port{`lastHostPort "9"`: {HostPort: 10, LastHostPort: 9}, `lastHostPort "65536"`: {HostPort: 10, LastHostPort: 65536}, `to "20"`: {HostPort: 10, LastHostPort: 12, To: 20}} {
		if _, err := Mappings([]Port{p}); errdefs.Of(err) != errdefs.Refused || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	for pair, conflict := range map[[2]string]bool{
		{"10-20", "20"}: true, {"10-20", "10"}: true, {"10-20", "15"}: true, {"10-20", "9"}: false, {"10-20", "21"}: false,
		{"10-20", "20-30"}: true, {"10-30", "15-20"}: true, {"10-20", "21-30"}: false, {"10-20", "10-20"}: true,
	} {
		for _, p := range [][2]string{pair, {pair[1], pair[0]}} {
			if _, err := Mappings(nil, ports(p[0]), ports("5"), ports("16000-17000"), ports(p[1])); (errdefs.Of(err) == errdefs.Refused) != conflict {
				t.Errorf("%v: %v", p, err)
			}
		}
	}
	_, err = Mappings(nil, ports("10-20"), ports("15"))
	if want := "host port 10-20/udp is mapped twice: to 10-20 from all addresses and to 15 from all addresses"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestSingle: plugins get each port of a range, within bounds.
func TestSingle(t *testing.T) {
	range3 := Mapping{HostPort: 10, LastHostPort: 12, ContainerPort: 10, Protocol: "udp", HostIP: "192.0.2.1"}
	one := Mapping{HostPort: 80, ContainerPort: 8080, Protocol: "tcp"}
	got, err := Single([]Mapping{one, range3})
	want := []Mapping{one}
	for port := range int32(3) {
		want = append(want, Mapping{HostPort: 10 + port, ContainerPort: 10 + port, Protocol: "udp", HostIP: "192.0.2.1"})
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if all, err := Single([]Mapping{{HostPort: 1, LastHostPort: 1000, ContainerPort: 1}}); err != nil || len(all) != mostPorts {
		t.Errorf("%d, %v", len(all), err)
	}
	if _, err := Single([]Mapping{{HostPort: 1, LastHostPort: 1001, ContainerPort: 1}}); errdefs.Of(err) != errdefs.Refused {
		t.Errorf("too many: %v", err)
	}
	if got := Capability([]Mapping{range3})[0]["lastHostPort"]; got != int32(12) {
		t.Errorf("the capability has %v", got)
	}
}

func TestInvalidPorts(t *testing.T) {
	for name, test := range map[string]struct {
		port Port
		want string
	}{
		"host port 0":       {Port{}, `port "a": host port "0": want 1 to 65535`},
		"host port too big": {Port{HostPort: 65536}, `port "a": host port "65536": want 1 to 65535`},
		"to negative":       {Port{HostPort: 80, To: -1}, `port "a": to "-1": want 1 to 65535, or 0 for the host port`},
		"to too big":        {Port{HostPort: 80, To: 65536}, `port "a": to "65536": want 1 to 65535, or 0 for the host port`},
		"protocol":          {Port{HostPort: 80, Protocol: "TCP"}, `port "a": protocol "TCP": want tcp, udp or sctp, or none for tcp and udp`},
		"host IP":           {Port{HostPort: 80, HostIP: "localhost"}, `port "a": host IP "localhost": want an IPv4 or IPv6 address without a zone`},
		"zone":              {Port{HostPort: 80, HostIP: "fe80::1%x -j ACCEPT"}, `port "a": host IP "fe80::1%x -j ACCEPT": want an IPv4 or IPv6 address without a zone`},
	} {
		t.Run(name, func(t *testing.T) {
			test.port.Label = "a"
			_, err := Mappings([]Port{test.port})
			if errdefs.Of(err) != errdefs.Refused || err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string][]Port{
		"8080":                     {{Label: "8080", HostPort: 8080, Protocol: "tcp"}},
		"8080:80":                  {{Label: "8080", HostPort: 8080, To: 80, Protocol: "tcp"}},
		"8080:80/udp":              {{Label: "8080", HostPort: 8080, To: 80, Protocol: "udp"}},
		"8080:80/tcp+udp":          {{Label: "8080", HostPort: 8080, To: 80, Protocol: "tcp"}, {Label: "8080", HostPort: 8080, To: 80, Protocol: "udp"}},
		"http=8080:80/tcp":         {{Label: "http", HostPort: 8080, To: 80, Protocol: "tcp"}},
		"127.0.0.1:8080":           {{Label: "8080", HostPort: 8080, HostIP: "127.0.0.1", Protocol: "tcp"}},
		"127.0.0.1:8080:80":        {{Label: "8080", HostPort: 8080, To: 80, HostIP: "127.0.0.1", Protocol: "tcp"}},
		"a=[fd00::1]:8080:80/sctp": {{Label: "a", HostPort: 8080, To: 80, HostIP: "fd00::1", Protocol: "sctp"}},
		"8000-8001":                {{Label: "8000-8001", HostPort: 8000, LastHostPort: 8001, Protocol: "tcp"}},
		"a=8000-9999:8000-9999":    {{Label: "a", HostPort: 8000, LastHostPort: 9999, Protocol: "tcp"}},
		"8000-8000:80":             {{Label: "8000", HostPort: 8000, To: 80, Protocol: "tcp"}},
		"10.0.0.1:8000-8001:80-81": {{Label: "8000", HostPort: 8000, To: 80, HostIP: "10.0.0.1", Protocol: "tcp"}, {Label: "8001", HostPort: 8001, To: 81, HostIP: "10.0.0.1", Protocol: "tcp"}},
		"rtp=65534-65535:1-2/udp":  {{Label: "rtp", HostPort: 65534, To: 1, Protocol: "udp"}, {Label: "rtp", HostPort: 65535, To: 2, Protocol: "udp"}},
	} {
		got, err := Parse(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", text, err, diff)
		}
	}
	if got, err := Parse("1-1000:2-1001"); len(got) != mostPorts || err != nil {
		t.Errorf("%d ports, %v", len(got), err)
	}
}

func TestParseRefuses(t *testing.T) {
	const number = "want a number from 1 to 65535, or a range of them, as in 8080:80/tcp"
	const protocol = "want tcp, udp or sctp after '/', or several as in tcp+udp, as in 8080:80/tcp"
	for text, want := range map[string]string{
		"":               `port "": host port "": ` + number,
		"x":              `port "x": host port "x": ` + number,
		"80 ":            `port "80 ": host port "80 ": ` + number,
		"80:0":           `port "80:0": port "0": ` + number,
		"80:x":           `port "80:x": port "x": ` + number,
		"80:80:80":       `port "80:80:80": port "80:80": ` + number,
		"0":              `port "0": host port "0": want 1 to 65535`,
		"-1":             `port "-1": host port "-1": ` + number,
		"+80":            `port "+80": host port "+80": ` + number,
		"2-1":            `port "2-1": host port "2-1": ` + number,
		"1-1001:2-1002":  `port "1-1001:2-1002": port "2-1002": want at most 1000 ports that are mapped to others, each by a rule, or the same ports, as in 8080:80/tcp`,
		"65535-65536":    `port "65535-65536": host port "65535-65536": ` + number,
		"80-81:80":       `port "80-81:80": port "80": want a range of 2, as many as host ports, as in 8080:80/tcp`,
		"80:80-81":       `port "80:80-81": port "80-81": want a range of 1, as many as host ports, as in 8080:80/tcp`,
		"80/":            `port "80/": protocol "": ` + protocol,
		"80/icmp":        `port "80/icmp": protocol "icmp": ` + protocol,
		"80/tcp+tcp":     `port "80/tcp+tcp": protocol "tcp": ` + protocol,
		"80/tcp+":        `port "80/tcp+": protocol "": ` + protocol,
		"=80":            `port "=80": label "": want a name before '=', as in 8080:80/tcp`,
		"1.2.3:80":       `port "80": host IP "1.2.3": want an IPv4 or IPv6 address without a zone`,
		"[fe80::1%x]:80": `port "80": host IP "fe80::1%x": want an IPv4 or IPv6 address without a zone`,
	} {
		_, err := Parse(text)
		if errdefs.Of(err) != errdefs.Refused || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestSelect(t *testing.T) {
	ports := []Port{{Label: "a", HostPort: 1}, {Label: "b", HostPort: 3}}
	taken, rest, err := Select(ports, []string{"b"})
	if err != nil || !cmp.Equal(taken, ports[1:]) || !cmp.Equal(rest, ports[:1]) {
		t.Errorf("took %v, left %v, %v", taken, rest, err)
	}
	_, rest, err = Select(ports, []string{"c"})
	if errdefs.Of(err) != errdefs.Refused || err.Error() != `no port has the label "c": the allocation has a, b` || len(rest) != 2 {
		t.Errorf("got %v, left %v", err, rest)
	}
	if _, _, err = Select(ports, []string{"b", "c"}); err == nil || err.Error() != `no port has the label "c": the allocation has a, b` {
		t.Errorf("a known label and an unknown one: %v", err)
	}
	if _, _, err = Select(nil, []string{"c"}); err == nil || err.Error() != `no port has the label "c": the allocation has none` {
		t.Errorf("without ports: %v", err)
	}
}

func TestCapability(t *testing.T) {
	got := Capability([]Mapping{{HostPort: 80, ContainerPort: 8080, Protocol: "tcp", HostIP: "10.0.0.1"}, {HostPort: 81, ContainerPort: 81, Protocol: "udp"}})
	want := []map[string]any{
		{"hostPort": int32(80), "containerPort": int32(8080), "protocol": "tcp", "hostIP": "10.0.0.1"},
		{"hostPort": int32(81), "containerPort": int32(81), "protocol": "udp"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// FuzzParse: a port that parses can be mapped.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"8080", "http=10.0.0.1:8080:80/tcp", "[fe80::1%x]:1", "=1", "1:2:3", "1-2:3-4/tcp+udp"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			return
		}
		mappings, err := Mappings(p)
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

// TestOverlap: no host IP is all of them, and an unspecified one is all of its family.
func TestOverlap(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"", "", true}, {"192.0.2.1", "", true}, {"fd00::1", "", true}, {"192.0.2.1", "192.0.2.1", true}, {"192.0.2.1", "::ffff:192.0.2.1", true},
		{"192.0.2.1", "0.0.0.0", true}, {"fd00::1", "::", true}, {"192.0.2.1", "::", false}, {"192.0.2.1", "192.0.2.2", false}, {"0.0.0.0", "::", false},
	} {
		for _, of := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			if got := Overlap(Mapping{HostPort: 80, Protocol: "tcp", HostIP: of[0]}, Mapping{HostPort: 80, Protocol: "tcp", HostIP: of[1]}); got != c.want {
				t.Errorf("%q: %t", of, got)
			}
		}
	}
}
