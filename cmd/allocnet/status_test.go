// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/doctor"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/state"
)

// attached are allocations as Nomad has them, with addresses of both families and
// ports on an address of the host.
func attached() []*hook.Allocation {
	attachment := func(iface, network string) hook.Attachment {
		return hook.Attachment{
			Network: network, Interface: iface, Phase: state.Attached, Created: time.Now(),
			Observed: hook.Observed{
				Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.100.101/24"), netip.MustParsePrefix("fd00:db8:1:2::101/64")},
				MAC:       "02:00:00:00:00:01",
				Ports: []hook.PortMapping{
					{HostPort: 28080, ContainerPort: 8080, Protocol: "tcp", HostIP: "192.168.1.10"},
					{HostPort: 28080, ContainerPort: 8080, Protocol: "udp", HostIP: "192.168.1.10"},
				},
			},
		}
	}
	pending := attachment("net1", "storage")
	pending.Phase, pending.Error, pending.Attempts = state.Pending, "no fabric", 2
	return []*hook.Allocation{
		{ID: first, Identity: policy.Identity{Namespace: "prod", Job: "api"}, Attachments: []hook.Attachment{attachment("eth0", "web"), pending}},
		{ID: third, Identity: policy.Identity{Namespace: "dev", Job: "api"}, Attachments: []hook.Attachment{attachment("eth0", "web")}},
	}
}

func printed(t *testing.T, on cli.Terminal) string {
	t.Helper()
	var out bytes.Buffer
	if err := printAllocations(&out, on, attached(), shortIDs([]string{first, third})); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestStatusDNS: a single allocation has a line with its DNS, if it has any.
func TestStatusDNS(t *testing.T) {
	for name, test := range map[string]struct {
		count int
		dns   hook.DNS
		want  string
	}{
		"one":     {1, hook.DNS{Servers: []string{"192.0.2.1", "192.0.2.2"}, Searches: []string{"a.example"}, Options: []string{"ndots:1"}}, "DNS (merge): servers 192.0.2.1 192.0.2.2; search a.example; options ndots:1\n"},
		"without": {1, hook.DNS{}, ""},
		"several": {2, hook.DNS{Servers: []string{"192.0.2.1"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			allocations := attached()[2-test.count:]
			for _, a := range allocations {
				a.DNSSelection, a.DNS = "merge", test.dns
			}
			var out bytes.Buffer
			if err := printAllocations(&out, cli.Terminal{}, allocations, nil); err != nil {
				t.Fatal(err)
			}
			if got := out.String(); !strings.Contains(got, test.want) || strings.Contains(got, "DNS") != (test.want != "") {
				t.Errorf("got\n%s, want %q", got, test.want)
			}
		})
	}
}

// TestStatusFits: the lines of a terminal of 80 columns do not wrap, and what a pipe
// gets has everything.
func TestStatusFits(t *testing.T) {
	narrow := printed(t, cli.Terminal{Columns: 80})
	for line := range strings.Lines(narrow) {
		if len(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	for _, word := range []string{first[:8] + "  ", "192.168.100.101/24", "fd00:db8:1:2::101/64", "192.168.1.10:28080->8080/udp", "no fabric"} {
		if !strings.Contains(narrow, word) {
			t.Errorf("the terminal does not show %q:\n%s", word, narrow)
		}
	}
	wide := printed(t, cli.Terminal{Columns: 300})
	if !strings.Contains(wide, "02:00:00:00:00:01") || strings.Contains(wide, third) {
		t.Errorf("a wide terminal has all columns and short IDs:\n%s", wide)
	}
	pipe := printed(t, cli.Terminal{})
	if !strings.Contains(pipe, third+"  eth0       web      192.168.100.101/24,fd00:db8:1:2::101/64  02:00:00:00:00:01  192.168.1.10:28080->8080/tcp,192.168.1.10:28080->8080/udp  attached  0s\n") {
		t.Errorf("a pipe:\n%s", pipe)
	}
}

// TestColours are only a terminal's.
func TestColours(t *testing.T) {
	if out := printed(t, cli.Terminal{Columns: 80, Colours: true}); !strings.Contains(out, "\x1b[31mpending\x1b[0m") || !strings.Contains(out, "\x1b[32mattached\x1b[0m") {
		t.Errorf("a terminal: %q", out)
	}
	for _, on := range []cli.Terminal{{}, {Columns: 80}} {
		if out := printed(t, on); strings.Contains(out, "\x1b") {
			t.Errorf("%+v: %q", on, out)
		}
	}
}

func TestShortIDs(t *testing.T) {
	short := shortIDs([]string{second, "web-1", third, first})
	for id, want := range map[string]string{first: first[:10], second: second[:10], third: third[:8], "web-1": ""} {
		if short[id] != want {
			t.Errorf("%s: %q, want %q", id, short[id], want)
		}
	}
}

func TestFilter(t *testing.T) {
	for _, test := range []struct {
		filter filter
		want   string
	}{
		{filter{}, "5c2e9a0e eth0 net1, 77777777 eth0"},
		{filter{network: "web"}, "5c2e9a0e eth0, 77777777 eth0"},
		{filter{phase: "pending"}, "5c2e9a0e net1"},
		{filter{network: "web", phase: "pending"}, ""},
		{filter{namespace: "dev"}, "77777777 eth0"},
		{filter{job: "api", namespace: "prod", network: "storage"}, "5c2e9a0e net1"},
		{filter{job: "other"}, ""},
	} {
		var got []string
		for _, a := range attached() {
			if a = test.filter.selected(a); a != nil {
				words := []string{a.ID[:8]}
				for _, n := range a.Attachments {
					words = append(words, n.Interface)
				}
				got = append(got, strings.Join(words, " "))
			}
		}
		if list := strings.Join(got, ", "); list != test.want {
			t.Errorf("%+v: %q, want %q", test.filter, list, test.want)
		}
	}
}

// TestStatusForms: the forms that programs read.
func TestStatusForms(t *testing.T) {
	dir := recordIn(t, map[string][]string{"web-1": {"web", "storage"}, "web-2": {"web"}})
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"-q"}, "web-1\nweb-2\n"},
		{[]string{"-q", "--json"}, "web-1\nweb-2\n"},
		{[]string{"-q", "--network", "storage"}, "web-1\n"},
		{[]string{"-q", "--job", "job-web-2"}, "web-2\n"},
		{[]string{"-q", "--phase", "adding"}, ""},
		{[]string{"-t", "{{range .}}{{.id}} {{.identity.job}} {{end}}"}, "web-1 job-web-1 web-2 job-web-2 \n"},
		{[]string{"web-2", "-t", "{{.id}}:{{range .attachments}}{{range .ports}}{{.hostPort}}{{end}}{{end}}"}, "web-2:8080\n"},
	} {
		code, out, errs := runs(t, append([]string{"status", "--state-dir", dir}, test.args...)...)
		if code != cli.ExitDone || out != test.want {
			t.Errorf("%q: exit code %d, %q, want %q\n%s", test.args, code, out, test.want, errs)
		}
	}
	code, out, _ := runs(t, "status", "--state-dir", dir, "--json", "--network", "storage")
	var list []allocationJSON
	if err := json.Unmarshal([]byte(out), &list); code != cli.ExitDone || err != nil || len(list) != 1 || len(list[0].Attachments) != 1 {
		t.Errorf("exit code %d, %v\n%s", code, err, out)
	}
	for _, refused := range [][]string{{"--phase", "up"}, {"-t", "{{"}, {"-t", "x", "-q"}, {"--watch=-1s"}} {
		if code, _, errs := runs(t, append([]string{"status", "--state-dir", dir}, refused...)...); code != cli.ExitRefused {
			t.Errorf("%q: exit code %d\n%s", refused, code, errs)
		}
	}
}

// Others choose texts that a terminal must not act on.
func TestOutputIsEscaped(t *testing.T) {
	hostile := "gone\x1b[2J\u202e"
	a := attached()[:1]
	a[0].Attachments[1].Error, a[0].Attachments[0].Network = hostile, hostile
	a[0].DNS.Servers, a[0].Attachments[0].Ports[0].Protocol = []string{hostile}, hostile
	for name, show := range map[string]func(w io.Writer) error{
		"status":       func(w io.Writer) error { return printAllocations(w, cli.Terminal{}, a, nil) },
		"status in 20": func(w io.Writer) error { return printAllocations(w, cli.Terminal{Columns: 20}, a, nil) },
		"error":        func(w io.Writer) error { cli.PrintError(w, hostile); return nil },
		"gc":           func(w io.Writer) error { printTornDown(w, &hook.Collected{TornDown: []string{hostile}}); return nil },
		"cleanup":      func(w io.Writer) error { return printObjects(w, "REMOVED", []cleanup.Decision{{Reason: hostile}}) },
		"check":        func(w io.Writer) error { return printChecked(w, cli.Terminal{}, []hook.Checked{{Skipped: hostile}}) },
		"doctor, findings": func(w io.Writer) error {
			return printReport(w, &doctor.Report{Findings: []doctor.Finding{{Fix: hostile}}})
		},
		"doctor, pools": func(w io.Writer) error {
			return printReport(w, &doctor.Report{Pools: []doctor.Pool{{Network: hostile}}})
		},
	} {
		var out bytes.Buffer
		if err := show(&out); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if text := out.String(); strings.ContainsAny(text, "\x1b\u202e") || !strings.Contains(text, `\x1b[2J\u202e`) {
			t.Errorf("%s: %q", name, text)
		}
	}
}
