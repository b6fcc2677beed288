// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/hclfile"
)

const example = `
allow "web reaches db" {
  from {
    job       = "web"
    namespace = "prod"
  }
  to {
    job       = "db"
    namespace = "prod"
  }
  ports = ["5432/tcp", "8000-8010/udp", "icmp"]
}
allow "office" {
  from { cidrs = ["10.0.0.0/8", "fd00::/8"] }
  to   { network = "*" }
}
egress "batch" {
  from { namespace = "batch" }
  to   { cidrs = ["10.0.0.0/8"] }
  dns  = true
}
egress "names only" {
  from { group = "g" }
  dns  = true
}
egress "nothing" {
  from { job = "idle" }
}
`

// TestParse reads rules of each form.
func TestParse(t *testing.T) {
	got, err := parse("f", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	ten := netip.MustParsePrefix("10.0.0.0/8")
	want := Rules{"f", []Allow{
		{"web reaches db", 2, Selector{Job: "web", Namespace: "prod"}, Selector{Job: "db", Namespace: "prod"}, []Ports{{"tcp", 5432, 5432}, {"udp", 8000, 8010}, {"icmp", 0, 0}}},
		{"office", 13, Selector{CIDRs: []netip.Prefix{ten, netip.MustParsePrefix("fd00::/8")}}, Selector{Network: "*"}, nil},
	}, []Egress{
		{"batch", 17, Selector{Namespace: "batch"}, Selector{CIDRs: []netip.Prefix{ten}}, nil, true},
		{"names only", 22, Selector{Group: "g"}, Selector{}, dnsPorts, true},
		{"nothing", 26, Selector{Job: "idle"}, Selector{Network: noNetwork}, nil, false},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
	var texts []string
	for _, p := range want.Allow[0].Ports {
		texts = append(texts, p.String())
	}
	if got := strings.Join(texts, " "); got != "5432/tcp 8000-8010/udp icmp" {
		t.Errorf("ports are %s", got)
	}
}

// TestFaults: what is wrong is refused with its line, its value and what would be right, and nothing is read.
func TestFaults(t *testing.T) {
	rule := func(from, to, rest string) string {
		return "allow \"a\" {\n from { " + from + " }\n to { " + to + " }\n " + rest + "\n}"
	}
	const good = `network = "a"`
	for text, want := range map[string]string{
		"":                                      "isolation in f: no rules: want blocks allow or egress, or remove the file if there are none",
		"# nothing\n":                           "isolation in f: no rules: want blocks",
		"allow \"a\" {\n":                       "f:1,11-12: Unclosed configuration block",
		"alow \"a\" {}":                         `f:1,1-5: Unsupported block type; Blocks of type "alow" are not expected here`,
		"x = 1":                                 "f:1,1-2: Unsupported argument",
		"allow {}":                              "f:1,7-8: Missing name for allow",
		"allow \"a\" \"b\" {}":                  "f:1,11-14: Extraneous label for allow",
		"allow \"\" {}":                         `f:1,7-9: Invalid value; "": want a name of at most 64 bytes`,
		"allow \" a\" {}":                       `" a": want a name`,
		"allow \"a\\\"b\" {}":                   `want a name of at most 64 bytes without quotes`,
		"allow \"" + long + "\" {}":             "want a name of at most 64 bytes",
		"allow \"a\" {\n to { job = \"a\" }\n}": `f:1,1-10: Invalid value; allow "a": want a block from with namespace, job, group, network or cidrs`,
		"allow \"a\" {\n from { job = \"a\" }\n}":                                                 `allow "a": want a block to with`,
		"egress \"a\" {\n dns = true\n}":                                                          `egress "a": want a block from with`,
		"egress \"a\" {\n from { job = \"a\" }\n ports = [\"80/tcp\"]\n}":                         "f:3,10-20: Invalid value; ports: want a block to, whose ports these are",
		"egress \"a\" {\n from { cidrs = [\"10.0.0.0/8\"] }\n dns = true\n}":                      "f:2,17-31: Invalid value; cidrs: want attachments, by namespace, job, group or network",
		"egress \"a\" {\n from { job = \"a\" }\n dns = \"perhaps\"\n}":                            "f:3,9-16: Unsuitable value type",
		rule(good, good, "") + "\n" + strings.Replace(rule(good, good, ""), "allow", "egress", 1): `f:6,8-11: Invalid value; "a": want another name: the rule at f:1,7-10 has it`,
		rule(`job = "a"`, good, ""):                                                               `f:2,2-6: Invalid value; from: want namespace, too: who writes a job chooses its name and its groups. "*" is any`,
		rule(`group = "a"`, good, ""):                                                             `from: want namespace, too`,
		rule("", good, ""):                                                                        `f:2,2-6: Invalid value; selector: want namespace, job, group, network or cidrs; all attachments are network = "*"`,
		rule(good, "", ""):                                                                        "f:3,2-4: Invalid value; selector: want",
		rule("\n"+good+"\n cidrs = [\"10.0.0.0/8\"]\n", good, ""):                                 "cidrs: want either cidrs, which are addresses of anything, or namespace",
		rule(`jb = "a"`, good, ""):                                                                `Unsupported argument; An argument named "jb" is not expected here. Did you mean "job"?`,
		rule(`job = ""`, good, ""):                                                                `f:2,15-17: Invalid value; "": want a name or a pattern, as in web or team-*`,
		rule(`job = "!a"`, good, ""):                                                              `"!a": want a name or a pattern`,
		rule(`job = "a "`, good, ""):                                                              `"a ": want a name or a pattern`,
		rule(`network = "/"`, good, ""):                                                           `"/": want a name or a pattern`,
		rule(`job = ["a"]`, good, ""):                                                             "Unsuitable value type",
		rule(`cidrs = []`, good, ""):                                                              `cidrs: want one or more prefixes`,
		rule(`cidrs = "10.0.0.0/8"`, good, ""):                                                    "Unsuitable value type",
		rule(`cidrs = ["10.0.0.1"]`, good, ""):                                                    `"10.0.0.1": want a prefix, as in "10.0.0.0/8"`,
		rule(`cidrs = ["10.0.0.1/8"]`, good, ""):                                                  `"10.0.0.1/8": want "10.0.0.0/8", or "10.0.0.1/32" for the address`,
		rule(`cidrs = ["::ffff:10.0.0.0/104"]`, good, ""):                                         `want a prefix`,
		rule(good, good, `ports = []`):                                                            `ports: want one or more, as in ["5432/tcp"], or omit the key for all`,
		rule(good, good, `ports = ["80"]`):                                                        `f:4,10-16: Invalid value; ports: "80": want a port and a protocol, as in 5432/tcp`,
		rule(good, good, `ports = ["0/tcp"]`):                                                     `"0/tcp": want a port`,
		rule(good, good, `ports = ["65536/tcp"]`):                                                 `"65536/tcp": want a port`,
		rule(good, good, `ports = ["9-8/tcp"]`):                                                   `"9-8/tcp": want a port`,
		rule(good, good, `ports = ["x-9/tcp"]`):                                                   `"x-9/tcp": want a port`,
		rule(good, good, `ports = ["9-99999/tcp"]`):                                               `"9-99999/tcp": want a port`,
		rule(good, good, `ports = ["+80/tcp"]`):                                                   `"+80/tcp": want a port`,
		rule(good, good, `ports = ["80/icmp"]`):                                                   `"80/icmp": want a port`,
		rule(good, good, `ports = ["80/tcp/x"]`):                                                  `"80/tcp/x": want a port`,
		rule(good, good, `ports = ["gre"]`):                                                       `"gre": want a port`,
		rule(good, good, `dns = true`):                                                            "Unsupported argument",
		rule(good, good, "from { job = \"b\" }"):                                                  "Duplicate from block",
	} {
		r, err := parse("f", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || errdefs.Of(err) != errdefs.Refused {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
		if len(r.Allow)+len(r.Egress) > 0 {
			t.Errorf("%s: has %+v", text, r)
		}
	}
	_, err := parse("f", []byte(rule("", "", `ports = ["80"]`)))
	var faults *hclfile.Error
	if !errors.As(err, &faults) || len(faults.Diagnostics) != 3 {
		t.Errorf("three faults: %v", err)
	}
}

const long = "0123456789012345678901234567890123456789012345678901234567890123456789"

// TestLoadFailsClosed: only where nothing is are there no rules.
func TestLoadFailsClosed(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "", "blank": " \n", "broken": "allow \"a\" {", "rules": example} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"dangling": "/nowhere/isolation.hcl", "loop": "loop", "no-directory": "/nowhere", "linked": "rules"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{
		"missing": true, "missing/isolation.hcl": true, "linked": true, "rules": true,
		"empty": false, "blank": false, "broken": false, "pipe": false, ".": false, "dangling": false, "loop": false, "no-directory/isolation.hcl": false, "rules/isolation.hcl": false,
	} {
		file := filepath.Join(dir, name)
		r, err := Load(file)
		if (err == nil) != want || r.File != file || err != nil && (errdefs.Of(err) != errdefs.Refused || !strings.Contains(err.Error(), dir)) {
			t.Errorf("%s: %+v, %v, want rules or none: %t", name, r, err, want)
		}
		if has := len(r.Allow) == 2; has != (want && !strings.HasPrefix(name, "missing")) {
			t.Errorf("%s: has %d rules", name, len(r.Allow))
		}
	}
}

// TestLoadDirectory: the error says what a directory is not.
func TestLoadDirectory(t *testing.T) {
	if _, err := Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("a directory: %v, want that it is no regular file", err)
	}
}

// FuzzLoad: what is accepted is selective, has names that nftables can list, and is read from its own text.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte("allow \"a\" {\n from { network = \"*\" }\n to { cidrs = [for x in [\"10.0.0.0/8\"]: x] }\n ports = [\"1-65535/sctp\"]\n}"))
	f.Add([]byte("egress \"\\u0000\" {}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parse("f", text)
		if err != nil {
			if err.Error() == "" || errdefs.Of(err) != errdefs.Refused || len(r.Allow)+len(r.Egress) > 0 {
				t.Errorf("%q: %+v, %v", text, r, err)
			}
			return
		}
		names := map[string]bool{}
		for _, a := range r.Allow {
			requireSound(t, a.Name, a.From, a.To, a.Ports)
			names[a.Name] = true
		}
		for _, e := range r.Egress {
			requireSound(t, e.Name, e.From, e.To, e.Ports)
			names[e.Name] = true
			if len(e.From.CIDRs) > 0 || !e.From.hasPatterns() {
				t.Errorf("%q: egress of %s", text, e.From)
			}
		}
		if len(names) != len(r.Allow)+len(r.Egress) {
			t.Errorf("%q: names twice", text)
		}
		a := netip.MustParseAddr("10.0.0.1")
		Decide(r, []Member{{Network: "n", Addresses: []netip.Addr{a}, Link: "br0"}}, Flow{From: End{Address: a, Link: "br0"}, Protocol: "tcp", Port: 80})
	})
}

func requireSound(t *testing.T, name string, from, to Selector, ports []Ports) {
	t.Helper()
	if name == "" || len(name) > mostName || strings.ContainsAny(name, "\"\\\n\x00") {
		t.Errorf("the name %q", name)
	}
	for _, s := range []Selector{from, to} {
		if s.hasPatterns() && len(s.CIDRs) > 0 {
			t.Errorf("%q: contradicts itself: %+v", name, s)
		}
		for _, p := range s.CIDRs {
			if !p.IsValid() || p != p.Masked() {
				t.Errorf("%q: %s", name, p)
			}
		}
	}
	for _, p := range ports {
		if again, err := ParsePorts(p.String()); err != nil || again != p {
			t.Errorf("%q: %s is %v, %v", name, p, again, err)
		}
	}
}
