// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// advertise has the server also be an IPv6 router that advertises a prefix.
func (l *lan) advertise(prefix string) {
	l.Helper()
	sandbox.Run(l, "ip", "-n", l.at, "addr", "add", prefix+"1/64", "dev", "srv0", "nodad")
	l.stop()
	l.serve("10.77.0.50,10.77.0.60", "--enable-ra", "--dhcp-range="+prefix+",ra-only,64")
}

// awaitAdvertised waits until an interface has an address of a prefix that can be used, and returns it.
func (l *lan) awaitAdvertised(id, iface, prefix string) (address string) {
	l.Helper()
	pattern := regexp.MustCompile(`inet6 (` + prefix + `\S+) `)
	l.await("an address of "+prefix, func() bool {
		m := pattern.FindStringSubmatch(sandbox.Run(l, "ip", "-n", id, "-6", "addr", "show", "dev", iface, "-tentative"))
		if m != nil {
			address = m[1]
		}
		return m != nil
	})
	return address
}

// TestSLAAC: an allocation waits for the address that a real router has it give itself. It is told of, and so is what the router changes while
// no agent runs.
func TestSLAAC(t *testing.T) {
	l := newLAN(t)
	sandbox.WriteFile(t, l.conf+"/71-lan6.conflist", block(t, "routing.md", "tested: slaac conflist", "json"))
	l.advertise("fd00:77::")
	l.ready()
	a := must[*api.Allocation](l.host)(l.client.Setup(ctx, "s-1", api.Setup{Primary: api.Selection{{Name: "lan6"}}}))
	first := l.awaitAdvertised("s-1", "eth0", "fd00:77:")
	if told := a.Attachments[0]; len(told.Addresses) != 1 || told.Addresses[0].String() != first || !strings.Contains(string(told.Result), first) {
		t.Errorf("the interface has %s, told is %+v", first, told)
	}
	l.end(unix.SIGKILL)
	l.advertise("fd00:78::")
	second := l.awaitAdvertised("s-1", "eth0", "fd00:78:")
	l.ready()
	l.await("the event", func() bool { return l.events("lan6") == "attached, lease changed" })
	told := must[*api.Allocation](l.host)(l.client.Allocation(ctx, "s-1")).Attachments[0]
	if !slices.ContainsFunc(told.Addresses, func(p netip.Prefix) bool { return p.String() == second }) || !strings.Contains(string(told.Result), second) {
		t.Errorf("the interface has %s as well, told is %+v", second, told)
	}
	if out, code := l.allocnet("check", "s-1"); code != 0 {
		t.Error(out)
	}
	if err := l.client.Teardown(ctx, "s-1"); err != nil {
		t.Error(err)
	}
	cmd := exec.Command("bash", "-euxo", "pipefail", "-c", block(t, "routing.md", "tested: slaac", "sh"))
	cmd.Env = l.env()
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "fd00:78:") || !strings.Contains(string(out), "lease changed") {
		t.Errorf("%v\n%s", err, out)
	}
}
