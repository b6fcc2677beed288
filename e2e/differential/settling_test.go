// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// settling are the links inside whose addresses may be tentative: duplicate address detection ends a
// while after an ADD that does not wait for it. None does that fails, whose addresses have no IPv6
// gateway, or that changes the MAC when it has waited.
type settling map[string]bool

// note notes the outcomes of ADD.
func (s settling) note(networks []network, gave outcomes) {
	for i, outcome := range gave {
		s[fmt.Sprintf("eth%d", i)] = !waits(outcome) || networks[i].tunesMAC()
	}
}

// waits tells whether ADD waited for the end of the detection.
func waits(outcome string) bool {
	text, ok := strings.CutPrefix(outcome, "ok ")
	var result struct {
		IPs []struct{ Gateway net.IP }
	}
	if !ok || json.Unmarshal([]byte(text), &result) != nil {
		return false
	}
	for _, ip := range result.IPs {
		if ip.Gateway != nil && ip.Gateway.To4() == nil {
			return true
		}
	}
	return false
}

var macKey = regexp.MustCompile(`(?i)\bmac\b`)

// tunesMAC tells whether tuning may change the MAC.
func (n network) tunesMAC() bool {
	return strings.Contains(n.List, `"tuning"`) && macKey.MatchString(fmt.Sprint(n))
}

// insideAddress matches the line of an address inside: the link, and the flags.
var insideAddress = regexp.MustCompile(`^(inside address of ([^/ ]+)/\d+ scope \d+ flags )(0x[0-9a-f]+)`)

// hide removes from lines whether the addresses of these links are tentative.
func (s settling) hide(lines []string) {
	for i, line := range lines {
		m := insideAddress.FindStringSubmatch(line)
		if m == nil || !s[m[2]] {
			continue
		}
		flags, _ := strconv.ParseUint(m[3], 0, 32) // as it is printed
		lines[i] = fmt.Sprintf("%s%#x%s", m[1], flags&^unix.IFA_F_TENTATIVE, strings.TrimPrefix(line, m[0]))
	}
}

// TestSettling: when the detection ends is no difference after an ADD that does not wait for it.
func TestSettling(t *testing.T) {
	for _, f := range []family{ptpFamily, macvlanFamily} { // fails, and succeeds
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			c := f.with([]variant{static("", map[string]any{"address": "fd00:50::7/64"})})
			c.Steps = []string{add, check, del}
			c.Sabotage = "while ip -n sandbox addr show tentative | grep -q inet6; do sleep 0.1; done"
			requireSame(t, c)
		})
	}
}

// TestSettlingLines: only the flag is removed, and only where ADD does not wait.
func TestSettlingLines(t *testing.T) {
	const before, after = "inside address of eth0/64 scope 0 flags 0x", " address=fd00::1"
	const v6, v4 = `ok {"ips": [{"gateway": "fd00::1"}]}`, `ok {"ips": [{"gateway": "10.0.0.1"}, {}]}`
	tuned := network{List: `{"type":"tuning","mac":"02:00:00:00:00:21"}`}
	for _, tt := range []struct {
		name    string
		network network
		outcome string
		hidden  bool
	}{
		{"waits", network{List: `{"type":"macvlan"},{"type":"tuning"}`}, v6, false},
		{"no IPv6 gateway", network{}, v4, true},
		{"no address", network{}, "ok {}", true},
		{"fails", network{}, "error with code 7" + textMark + "x", true},
		{"MAC changes", tuned, v6, true},
		{"MAC of the arguments", network{List: `{"type":"tuning"}`, Args: [][2]string{{"MAC", "02:00:00:00:00:21"}}}, v6, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := settling{}
			s.note([]network{tt.network}, outcomes{tt.outcome})
			other := strings.Replace(before, "eth0", "eth1", 1) + "c0" + after
			lines := []string{before + "c0" + after, before + "80" + after, before + "88" + after, other, "address of eth0/64 scope 0 flags 0xc0"}
			want := slices.Clone(lines)
			if tt.hidden {
				want[0] = want[1]
			}
			if s.hide(lines); !slices.Equal(lines, want) {
				t.Errorf("%q", lines)
			}
		})
	}
}
