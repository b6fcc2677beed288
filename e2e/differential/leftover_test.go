// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// leftovers is what the plugins may have left, and another executor not.
type leftovers struct {
	// possible is whether there may be any: from the failure of an ADD or a DEL, and from a change
	// or the end of the namespace.
	possible bool
	// removed are the links that the plugins left.
	removed map[string]bool
	taken   takenNames
	// withoutMaster is whether the link inside was removed from the host.
	withoutMaster bool
	additions     additions
}

// difference returns the lines of a stage that are different. Before is what the plugins had
// before it.
func (l *leftovers) difference(before []string, want stage, got []string) []string {
	failed := want.step != check && !want.outcomes.succeeded()
	l.possible = l.possible || want.step == vanish || strings.HasPrefix(want.step, inSandbox) || failed
	lines := difference(want.lines, got, l.possible)
	l.withoutMaster = l.withoutMaster || want.step == removeMaster
	if l.withoutMaster {
		lines = slices.DeleteFunc(lines, tuningBackup.MatchString)
	}
	l.taken.note(want, got)
	var missing []string
	if want.step == add {
		missing = l.additions.missing(before, want, got)
	}
	if !l.possible {
		return lines // has them
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return l.removed[linkOfMAC(line, "+")] || l.taken.ofReplaced(line) })
	l.remove(want.lines, got)
	return append(lines, missing...)
}

// tuningBackup matches a file that DEL of tuning leaves if the link is gone, and in process does not.
var tuningBackup = regexp.MustCompile(`^-file /run/(cni/)?tuning/container_eth\d\.json `)

// remove notes the links that are removed while the plugins have left them: after a failed DEL,
// the next ADD of the plugins finds the link of the one before, and another executor makes a new
// one, which has a new MAC.
func (l *leftovers) remove(want, got []string) {
	has := map[string]bool{}
	for _, line := range got {
		has[linkOfMAC(line, "")] = true
	}
	for _, line := range want {
		if link := linkOfMAC(line, ""); link != "" && !has[link] {
			if l.removed == nil {
				l.removed = map[string]bool{}
			}
			l.removed[link] = true
		}
	}
}

// macLine matches the line of a MAC that the kernel chose.
var macLine = regexp.MustCompile(`^((?:inside )?link [^ ]+) address=mac\(`)

// linkOfMAC returns the link whose MAC a line with a sign has; empty if it has none.
func linkOfMAC(line, sign string) string {
	line, signed := strings.CutPrefix(line, sign)
	if m := macLine.FindStringSubmatch(line); m != nil && signed {
		return m[1]
	}
	return ""
}

// TestLeftovers: from the failure of an ADD or a DEL less may be left, but not more.
func TestLeftovers(t *testing.T) {
	want := []stage{{step: add, outcomes: outcomes{"error with code 7 # a"}, lines: []string{"rule"}}, {step: del, lines: []string{"rule"}}}
	clean := []stage{{step: add, outcomes: outcomes{"error with code 7 # b"}}, {step: del}}
	if d := firstDifference(want, clean); d != "" {
		t.Errorf("less is a difference: %s", d)
	}
	if firstDifference(clean, want) == "" {
		t.Error("more is no difference")
	}
	if firstDifference([]stage{{step: add, lines: []string{"rule"}}}, []stage{{step: add}}) == "" {
		t.Error("less is no difference after an ADD that succeeded")
	}
}

// TestLeftoversWithoutMaster: tuning's file may be left if the link is removed from the host.
func TestLeftoversWithoutMaster(t *testing.T) {
	t.Parallel()
	c := macvlanFamily.with([]variant{chained("", map[string]any{"type": "tuning", "txQLen": 500})})
	c.Steps = []string{add, removeMaster, check, del, add, del}
	requireSame(t, c)
	backup := []string{`file /run/cni/tuning/container_eth0.json -rw------- "{}"`}
	for _, step := range []string{removeMaster, "ip link set uplink down || true"} {
		want, got := []stage{{step: step}, {step: del, lines: backup}}, []stage{{step: step}, {step: del}}
		if same := firstDifference(want, got) == ""; same != (step == removeMaster) {
			t.Errorf("%s: same is %t", step, same)
		}
	}
	want, got := []stage{{step: removeMaster, lines: chain("left")}}, []stage{{step: removeMaster}}
	if firstDifference(want, got) == "" {
		t.Error("another leftover is no difference")
	}
}

// TestLeftoversBeforeADD: an ADD that succeeds after a failure makes all that the plugins make.
func TestLeftoversBeforeADD(t *testing.T) {
	stages := func(left, made []string) []stage {
		return []stage{{step: add, outcomes: outcomes{"error with code 7 # a"}, lines: left}, {step: add, outcomes: outcomes{"ok"}, lines: made}}
	}
	want := stages(chain("left"), chain("left", "made"))
	if d := firstDifference(want, stages(nil, chain("made"))); d != "" {
		t.Errorf("what is left of the failure is a difference: %s", d)
	}
	if firstDifference(want, stages(nil, nil)) == "" {
		t.Error("less than ADD makes is no difference")
	}
}

// TestLeftoverLink: a link that was removed, while the plugins left it, has another MAC when it is made
// again. Any other link does not.
func TestLeftoverLink(t *testing.T) {
	stages := func(macs ...string) []stage {
		var all []stage
		for i, mac := range macs {
			s := stage{step: []string{add, del, add}[i], outcomes: outcomes{"error with code 7 # a"}}
			if mac != "" {
				s.lines = []string{"inside link eth0 address=" + mac}
			}
			all = append(all, s)
		}
		return all
	}
	want := stages("mac(eth0,1)", "mac(eth0,1)", "mac(eth0,1)")
	if d := firstDifference(want, stages("mac(eth0,1)", "", "mac(eth0,2)")); d != "" {
		t.Errorf("the MAC of a new link is a difference: %s", d)
	}
	for _, got := range [][]stage{stages("mac(eth0,1)", "mac(eth0,1)", "mac(eth0,2)"), stages("mac(eth0,1)", "", "02:00:00:00:00:01")} {
		if firstDifference(want, got) == "" {
			t.Errorf("another MAC is no difference: %v", got)
		}
	}
}
