// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/doctor"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestObstacles: doctor finds what drops packets between hosts, and its fixes remove it.
func TestObstacles(t *testing.T) {
	namespace(t, otherHost)
	h := routedHost(t, hook.ExecutorAuto, otherHost, map[string]any{"type": "ptp"}, map[string]any{"mode": "auto"},
		map[string]any{"subnet": "10.72.0.0/24"}, map[string]any{"subnet": "fd72::/64"})
	inHost := func(command string) {
		t.Helper()
		sandbox.Run(t, "nsenter", "--net=/run/netns/"+otherHost, "sh", "-c", command)
	}
	inHost(`ip link add under0 type bridge && ip link set under0 up && ip addr add 172.30.0.2/24 dev under0 && ip route add default via 172.30.0.1
		sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0 net.ipv4.conf.all.rp_filter=1
		iptables-nft -P FORWARD DROP; ip6tables-nft -P FORWARD DROP; iptables-legacy -A FORWARD -j REJECT; nft add table inet own
		nft add chain inet own forwarded '{ type filter hook forward priority 0; policy drop; }'`)
	runFirewalld(t)
	found := obstacles(h)
	var subjects []string
	for _, f := range found {
		subjects = append(subjects, f.Subject)
	}
	want := []string{
		"ip6tables-nft", "iptables-legacy", "iptables-nft", h.conf + "/net.conflist", h.conf + "/net.conflist",
		"net.ipv4.conf.under0.rp_filter", "net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding", "nft table inet own", "nft table inet own", "firewalld", "firewalld",
	}
	if slices.Sort(subjects); !slices.Equal(subjects, slices.Sorted(slices.Values(want))) {
		t.Fatalf("found %+v, want %v", found, want)
	}
	for _, f := range found {
		if f.Subject != h.conf+"/net.conflist" { // the MTU, and no agent guards the VXLAN
			inHost(f.Fix)
		}
	}
	if left := obstacles(h); len(left) != 2 || left[0].Subject != h.conf+"/net.conflist" || left[1].Subject != left[0].Subject {
		t.Errorf("after the fixes: %+v, want the MTU and the guard", left)
	}
}

// runFirewalld puts a program in the place of firewalld's, which has the zones of a file.
func runFirewalld(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	sandbox.WriteFile(t, dir+"/zones", "public (default, active)\n  target: default\n  sources: \n\ntrusted\n  target: ACCEPT\n  sources: \n")
	script := `#!/bin/sh
case "$*" in
--state) echo running ;;
--list-all-zones) cat ` + dir + `/zones ;;
"--permanent --zone=trusted --add-source="*) echo "  sources: ${3#--add-source=}" >> ` + dir + `/zones ;;
esac
`
	if err := os.WriteFile(dir+"/firewall-cmd", []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// obstacles returns what doctor finds of forwarding and the network.
func obstacles(h *host) []doctor.Finding {
	h.Helper()
	out, err := h.program("doctor", "--json").Output() // the exit code tells whether there are errors
	var report doctor.Report
	if jsonErr := json.Unmarshal(out, &report); jsonErr != nil {
		h.Fatalf("doctor: %v: %s", err, out)
	}
	return slices.DeleteFunc(report.Findings, func(f doctor.Finding) bool {
		return !strings.Contains(f.Subject, "tables-") && !strings.HasPrefix(f.Subject, "net.") && !strings.HasPrefix(f.Subject, "nft") && f.Subject != "firewalld" && f.Subject != h.conf+"/net.conflist"
	})
}
