// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/hook"
)

// deniedFlows are one between two attachments, one from elsewhere, and a frame.
func deniedFlows() []api.DeniedFlow {
	at := time.Unix(1, 0)
	web := allocation.FlowEnd{Address: netip.MustParseAddr("10.0.0.5"), Allocation: "web-1", Interface: "eth0", Network: "web"}
	db := allocation.FlowEnd{Address: netip.MustParseAddr("fd00::5"), Allocation: "db-1", Interface: "net0", Network: "db"}
	return []api.DeniedFlow{
		{Last: at, Count: 7, From: web, To: db, Protocol: "tcp", Port: 5432, Reason: "strict"},
		{Last: at, Count: 1, From: allocation.FlowEnd{Address: netip.MustParseAddr("192.0.2.7")}, To: db, Protocol: "icmp", Reason: "strict"},
		{Last: at, Count: 2, From: allocation.FlowEnd{Allocation: web.Allocation, Interface: web.Interface, Network: web.Network}, Reason: "forged"},
	}
}

// TestPrintDenied: a line for each flow.
func TestPrintDenied(t *testing.T) {
	var out bytes.Buffer
	if err := printDenied(&out, deniedFlows(), false); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"LAST COUNT FROM TO PORT REASON",
		"1970-01-01T00:00:01Z 7 web-1@eth0 (10.0.0.5) db-1@net0 (fd00::5) 5432/tcp strict",
		"1970-01-01T00:00:01Z 1 192.0.2.7 db-1@net0 (fd00::5) icmp strict",
		"1970-01-01T00:00:01Z 2 web-1@eth0 (a frame) - - forged",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s", strings.Join(lines, "\n"))
	}
	out.Reset()
	if err := printDenied(&out, deniedFlows(), true); err != nil || strings.Count(out.String(), "\n") != 3 || !strings.Contains(out.String(), `"count":7`) {
		t.Errorf("%v: %s", err, out.String())
	}
}

// TestSelectDenied: a flow is that of the allocation and network of one of its ends.
func TestSelectDenied(t *testing.T) {
	for _, test := range []struct{ allocation, network, want string }{
		{"", "", "012"}, {"web-1", "", "02"}, {"db-1", "", "01"}, {"web", "", ""}, {"", "db", "01"}, {"web-1", "db", ""}, {"db-1", "db", "01"}, {"", "other", ""},
	} {
		var f eventsFlags
		f.Allocation, f.Network = test.allocation, test.network
		got := ""
		for i, d := range deniedFlows() {
			if f.selects(d) {
				got += string(rune('0' + i))
			}
		}
		if got != test.want {
			t.Errorf("%+v: %q", test, got)
		}
	}
}

// TestDeniedNeedsAgent: flags that have no meaning are refused, and without an agent nothing is known.
func TestDeniedNeedsAgent(t *testing.T) {
	for args, want := range map[string]string{
		"--follow": "2 --denied and --follow or --after", "--after 3": "2 --denied and --follow or --after", "--socket " + t.TempDir() + "/none": "1 ",
	} {
		code, _, errs := runs(t, append([]string{"events", "--denied"}, strings.Fields(args)...)...)
		if !strings.HasPrefix(want, string(rune('0'+code))) || !strings.Contains(errs, want[2:]) {
			t.Errorf("%s: exit code %d, %s, want %s", args, code, errs, want)
		}
	}
}

// TestDescribeDenied: what was dropped is told of one allocation, if something was.
func TestDescribeDenied(t *testing.T) {
	var out bytes.Buffer
	a := &hook.Allocation{ID: "web-1", Attachments: []hook.Attachment{
		{Interface: "eth0", Denied: &allocation.Denied{Packets: 3, Bytes: 180}}, {Interface: "net0", Denied: &allocation.Denied{Packets: 1, Bytes: 60, Forged: 2}},
		{Interface: "net1", Denied: &allocation.Denied{Forged: 5}}, {Interface: "net2", Denied: &allocation.Denied{}}, {Interface: "net3"},
	}}
	if err := printAllocations(&out, cli.Terminal{}, []*hook.Allocation{a}, nil); err != nil {
		t.Fatal(err)
	}
	want := "eth0: packets denied: 3 (180 bytes), forged: 0\nnet0: packets denied: 1 (60 bytes), forged: 2\nnet1: packets denied: 0 (0 bytes), forged: 5\n"
	if !strings.HasSuffix(out.String(), want) {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
