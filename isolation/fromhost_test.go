// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
)

// TestFromHost: the host reaches attachments of a network with fromHost false by published ports and by rules that have it, and by no others.
func TestFromHost(t *testing.T) {
	host, own := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.5")
	for _, level := range []Level{Network, Strict} {
		m := Member{Network: "db", Level: level, NoHost: true, Job: "db", Addresses: []netip.Addr{own}, Link: "br0"}
		for text, test := range map[string]struct {
			from      Selector
			published bool
			want      string
		}{
			"no rule":             {Selector{Job: "x"}, false, "4 denied"},
			"a published port":    {Selector{Job: "x"}, true, "3 allowed"},
			"a rule of the host":  {Selector{Host: true}, false, "1 allowed"},
			"a rule of addresses": {Selector{CIDRs: []netip.Prefix{netip.PrefixFrom(host, 32)}}, false, "1 allowed"},
			"another address":     {Selector{CIDRs: []netip.Prefix{netip.PrefixFrom(own, 32)}}, false, "4 denied"},
		} {
			r := Rules{Allow: []Allow{{Name: "a", From: test.from, To: Selector{Network: "db"}}}}
			for _, address := range []netip.Addr{host, {}} {
				if text == "a rule of addresses" && !address.IsValid() {
					continue
				}
				d := Decide(r, []Member{m}, Flow{From: End{Host: true, Address: address}, To: EndOf(m, own), Protocol: "tcp", Port: 80, Published: test.published})
				got := map[int]string{1: "1 ", 3: "3 ", 4: "4 "}[d.Rule] + map[bool]string{true: "allowed", false: "denied"}[d.Allowed]
				if got != test.want {
					t.Errorf("%s, %s, from %s: %+v, want %s", level, text, address, d, test.want)
				}
			}
		}
		r := Rules{Allow: []Allow{{Name: "a", From: Selector{Host: true}, To: Selector{Network: "*"}}}}
		if d := Decide(r, []Member{m}, Flow{From: End{Address: host}, To: EndOf(m, own)}); d.Rule == 1 {
			t.Errorf("%s: another machine is taken for the host: %+v", level, d)
		}
		if d := Decide(r, []Member{m}, Flow{From: EndOf(m, own), To: End{Host: true, Address: host}}); !d.Allowed {
			t.Errorf("%s: to the host: %+v", level, d)
		}
		passages := ReachedBy(Rules{}, m)
		if passages[0].Peer != "this host" || passages[0].Allowed || !strings.Contains(passages[0].By, "fromHost false") {
			t.Errorf("%s: %+v", level, passages)
		}
	}
}

// TestHostSelectorForEarlier: a program that does not know the key host reads the rules in force, and takes it for nothing, not for everything.
func TestHostSelectorForEarlier(t *testing.T) {
	r, err := parse("f", []byte("allow \"a\" {\n from { host = true }\n to { network = \"db\" }\n}"))
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var earlier struct {
		Allow []struct {
			From struct{ Namespace, Job, Group, Network string }
		}
	}
	if err := json.Unmarshal(encoded, &earlier); err != nil {
		t.Fatal(err)
	}
	from := Selector{Network: earlier.Allow[0].From.Network}
	if from.selectsAddress(netip.MustParseAddr("10.0.0.1")) || from.selects(Member{Network: "n"}) {
		t.Errorf("%s selects something", from)
	}
	if s := r.Allow[0].From; s.String() != "this host" || s.selectsAddress(netip.MustParseAddr("10.0.0.1")) || s.selects(Member{Network: "n"}) {
		t.Errorf("%s selects something else", s)
	}
}

// TestHostSelector: what selects the host selects nothing else, and is refused where it has no meaning.
func TestHostSelector(t *testing.T) {
	s := Selector{Host: true}
	if s.selects(Member{Network: "n", Job: "web"}) || s.selectsAddress(netip.MustParseAddr("10.0.0.1")) || s.String() != "this host" {
		t.Errorf("%s selects more", s)
	}
	rule := func(kind, from, to string) string {
		return kind + " \"a\" {\n from { " + from + " }\n to { " + to + " }\n}"
	}
	const good = `network = "a"`
	for text, want := range map[string]string{
		rule("allow", "host = true", good):                         "",
		rule("allow", "host = false", good):                        "f:2,16-21: Invalid value; host: want true, or omit the key",
		rule("allow", "\nhost = true\n"+good+"\n", good):           "host: want either host, or namespace",
		rule("allow", "\nhost = true\ncidrs = [\"::/0\"]\n", good): "host: want either host, or namespace",
		rule("allow", good, "host = true"):                         "f:3,14-18: Invalid value; host: want it in from of a rule allow",
		rule("egress", good, "host = true"):                        "host: want it in from of a rule allow",
		rule("egress", "host = true", good):                        "host: want attachments, by namespace, job, group or network",
		rule("allow", "host = \"yes\"", good):                      "Unsuitable value type",
	} {
		r, err := parse("f", []byte(text))
		switch {
		case want == "" && (err != nil || !r.Allow[0].From.Host):
			t.Errorf("%s: %+v, %v", text, r, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}
