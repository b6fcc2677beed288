// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/netns"
)

var (
	bridgeLine    = regexp.MustCompile(`^link ([^ ]+) linkinfo kind=bridge`)
	bridgeCommand = regexp.MustCompile(`\bip link add ([^ ]+) (?:[^&|]* )?type bridge\b`)
	// followed are the settings that a bridge without own ones takes from its ports, or from the plugins.
	followed = regexp.MustCompile(`^link ([^ ]+) (?:mtu=|sysctl ipv6 conf [23]=)`)
	ownGroup = regexp.MustCompile(fmt.Sprintf(`^link [^ ]+ group=(?:0|%d)$`, netns.LinkGroup))
	ownMAC   = regexp.MustCompile(`^link ([^ ]+) address=(?:mac\(|00:00:00:00:00:00)`)
)

// withoutDeviations leaves out what is not as with the plugins on purpose (docs/differences.md): the MAC of a bridge that
// is not configured, the MTU and accept_ra of bridges that were there before, the group of links, and the guard of
// 127.0.0.0/8.
func withoutDeviations(prepare, lines []string) []string {
	bridges, before := map[string]bool{}, map[string]bool{}
	for _, line := range lines {
		if m := bridgeLine.FindStringSubmatch(line); m != nil {
			bridges[m[1]] = true
		}
	}
	for _, m := range bridgeCommand.FindAllStringSubmatch(strings.Join(prepare, "\n"), -1) {
		before[m[1]] = true
	}
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		if strings.HasPrefix(line, "nft ") && strings.Contains(line, " table ip allocnet_loopback") || ownGroup.MatchString(line) {
			return true
		}
		if m := ownMAC.FindStringSubmatch(line); m != nil {
			return bridges[m[1]]
		}
		m := followed.FindStringSubmatch(line)
		return m != nil && before[m[1]]
	})
}

// TestWithoutDeviations leaves out nothing else.
func TestWithoutDeviations(t *testing.T) {
	lines := []string{
		"link br0 address=mac(at br0)", "link br0 linkinfo kind=bridge", "link br0 mtu=1500", "link br0 sysctl ipv6 conf 3=1", "link br0 sysctl ipv6 conf 4=1",
		"link br1 address=02:00:00:00:00:42", "link br1 linkinfo kind=bridge", "link br1 mtu=1500", "link br1 sysctl ipv6 conf 3=1",
		"link veth#0 address=mac(veth#0,1)", "inside link br0 address=mac(x)",
		"link br0 group=7", "link br0 group=0", "link br0 group=1634495599",
	}
	got := withoutDeviations([]string{"ip link add br0 mtu 9000 type bridge && ip link set br0 up", "ip link add br1x type bridge"}, lines)
	if diff := cmp.Diff(append([]string{lines[1]}, lines[4:len(lines)-2]...), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
