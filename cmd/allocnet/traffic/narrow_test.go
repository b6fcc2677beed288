// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package traffic

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/state"
)

// TestNarrowed: the commands tell what a job leaves of its traffic, before what else decides.
func TestNarrowed(t *testing.T) {
	rules := policyHost(t)
	store, err := state.Open(os.Getenv("ALLOCNET_STATE_DIR"))
	if err != nil {
		t.Fatal(err)
	}
	lock, err := store.Lock(t.Context(), "narrow-1")
	if err != nil {
		t.Fatal(err)
	}
	attachments := policyAttachments("narrow-1", []string{"open:br0:10.0.0.7"})
	attachments[0].Isolation = &state.Isolation{
		Level: "none", End: "veth9", Bridge: "br0", MAC: "02:00:00:00:00:09", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.7")},
		Narrowing: allocation.Narrowing{Ingress: "5432/tcp", Egress: "192.0.2.0/24 443/tcp, dns"},
	}
	if err := lock.Begin(state.Allocation{ID: "narrow-1", Mode: state.ModeSetup}, attachments); err != nil {
		t.Fatal(err)
	}
	lock.Unlock()
	for args, want := range map[string]string{
		"web-1 narrow-1:5432":        "0 allowed web-1@net0 (10.0.0.5) to narrow-1@net0 (10.0.0.7), 5432/tcp rule 8",
		"web-1 narrow-1:80":          "4 denied web-1@net0 (10.0.0.5) to narrow-1@net0 (10.0.0.7), 80/tcp rule 0 the job of the destination narrows its ingress to 5432/tcp",
		"host narrow-1:80":           "0 allowed this host (10.1.0.1) to narrow-1@net0 (10.0.0.7), 80/tcp rule 4",
		"narrow-1 192.0.2.7:443":     "0 allowed narrow-1@net0 (10.0.0.7) to 192.0.2.7, 443/tcp rule 8",
		"narrow-1 192.0.2.7:444":     "4 denied narrow-1@net0 (10.0.0.7) to 192.0.2.7, 444/tcp rule 0 the job of the source narrows its egress to 192.0.2.0/24 443/tcp, 53/udp 53/tcp",
		"198.51.100.1 host:8008/tcp": "0 allowed 198.51.100.1 to narrow-1@net0 (10.0.0.7), 5432/tcp rule 3",
	} {
		code, out, errs := runs(t, append([]string{"policy", "test", "--rules", rules}, strings.Fields(args)...)...)
		if got := strings.Join(strings.Fields(fmt.Sprint(code)+" "+out+errs), " "); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got\n%s\nwant %s", args, got, want)
		}
	}
	_, out, _ := runs(t, "policy", "show", "--rules", rules)
	if got := strings.Join(strings.Fields(out), " "); !strings.Contains(got, "narrow-1 net0 open none, narrowed -") {
		t.Errorf("all: %s", got)
	}
	_, out, _ = runs(t, "policy", "show", "--rules", rules, "narrow-1")
	if got := strings.Join(strings.Fields(out), " "); !strings.Contains(got, `net0 of narrow-1, network open, isolation none, narrowed PEER PORTS BY `+
		`reached by denied everything but this host, 5432/tcp - ingress of the job `+
		`reached by allowed everything 127.0.0.1:8008->5432/tcp published ports reached by allowed this host`) ||
		!strings.Contains(got, "reaches denied everything but 192.0.2.0/24 443/tcp, 53/udp 53/tcp - egress of the job") {
		t.Errorf("one: %s", got)
	}
	code, out, _ := runs(t, "policy", "show", "--rules", rules, "narrow-1", "--json")
	var all trafficJSON
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != cli.ExitDone || all.Attachments[0].Ingress != "5432/tcp" || all.Attachments[0].Egress != "192.0.2.0/24 443/tcp, 53/udp 53/tcp" {
		t.Errorf("exit code %d, %v: %s", code, err, out)
	}
}
