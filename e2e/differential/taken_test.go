// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// takenNames are the names inside that links have which a failed DEL of the plugins left, and
// another executor removed. DEL of macvlan releases the lease first, and keeps the link if that
// fails. It may be another's link, of another kind: the next ADD of the plugins fails on its
// name, and another executor makes its own link, which it leaves if it fails later.
type takenNames struct {
	// left has the kinds of the plugins' links by name, and replaced those of the others.
	left, replaced map[string]string
}

// note notes the links of a stage.
func (t *takenNames) note(want stage, got []string) {
	if t.left == nil {
		t.left, t.replaced = map[string]string{}, map[string]string{}
	}
	theirs, others := kindsInside(want.lines), kindsInside(got)
	maps.DeleteFunc(t.left, func(name, kind string) bool { return theirs[name] != kind })
	maps.DeleteFunc(t.replaced, func(name, kind string) bool { return others[name] != kind || t.left[name] == "" })
	for name, kind := range theirs {
		switch other := others[name]; {
		case want.step == del && !want.outcomes.succeeded() && other == "":
			t.left[name] = kind
		case t.left[name] == "" || other == "" || other == t.replaced[name]:
		case want.step == add && other != kind && slices.ContainsFunc(want.outcomes, func(o string) bool { return strings.Contains(o, nameTaken(name)) }):
			t.replaced[name] = other
		default: // is compared
			delete(t.left, name)
			delete(t.replaced, name)
		}
	}
}

// ofReplaced tells whether a line is too much only because a link replaces that of the plugins.
func (t *takenNames) ofReplaced(line string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(line, "+inside link "), " ")
	return t.replaced[name] != "" && strings.HasPrefix(line, "+inside link ")
}

// nameTaken is what ADD of macvlan says about a name that another link has.
func nameTaken(name string) string {
	return fmt.Sprintf("failed to rename macvlan to %q: file exists", name)
}

// kindLine matches the line with the kind of a link inside.
var kindLine = regexp.MustCompile(`^inside link ([^ ]+) linkinfo kind=([^ ]+)$`)

// kindsInside returns the kinds of the links inside by their names.
func kindsInside(lines []string) map[string]string {
	kinds := map[string]string{}
	for _, line := range lines {
		if m := kindLine.FindStringSubmatch(line); m != nil {
			kinds[m[1]] = m[2]
		}
	}
	return kinds
}

// TestTakenName: a link that the plugins left is replaced by one of another kind only by an ADD that
// the plugins failed on its name, and nothing else is allowed.
func TestTakenName(t *testing.T) {
	const failed, taken = textMark + "no lease", textMark + `failed to rename macvlan to "eth0": file exists`
	link := func(name, kind string) []string {
		return []string{"inside link " + name + " linkinfo kind=" + kind, "inside link " + name + " mtu=1"}
	}
	bridge, macvlan, none := link("eth0", "bridge"), []string{"inside link eth0 linkinfo kind=macvlan", "inside link eth0 mtu=2"}, []string(nil)
	type executed struct {
		step, outcome string
		want, got     []string
	}
	removed, made := executed{del, failed, bridge, none}, executed{add, taken, bridge, macvlan}
	for _, tt := range []struct {
		name  string
		steps []executed
		same  bool
	}{
		{"made", []executed{removed, made, {check, failed, bridge, macvlan}, {vanish, "", none, none}}, true},
		{"made again", []executed{removed, made, removed, made}, true},
		{"not removed", []executed{{del, failed, bridge, bridge}, made}, false},
		{"removed by DEL that succeeds", []executed{{add, failed, none, none}, {del, "ok", bridge, none}, made}, false},
		{"removed by ADD", []executed{{add, failed, bridge, none}, made}, false},
		{"ADD that fails otherwise", []executed{removed, {add, failed, bridge, macvlan}}, false},
		{"ADD that succeeds", []executed{removed, {add, "ok", bridge, macvlan}}, false},
		{"made by CHECK", []executed{removed, {check, taken, bridge, macvlan}}, false},
		{"of the same kind", []executed{removed, {add, taken, bridge, []string{bridge[0], "inside link eth0 mtu=2"}}}, false},
		{"another name", []executed{removed, {add, taken, bridge, link("eth1", "macvlan")}}, false},
		{"on the host", []executed{removed, {add, taken, bridge, []string{"link eth0 linkinfo kind=macvlan"}}}, false},
		{"beside an address", []executed{removed, {add, taken, bridge, append(link("eth0", "macvlan"), "inside address of eth0/24")}}, false},
		{"left after the end", []executed{removed, made, {vanish, "", none, macvlan}}, false},
		{"where the plugins remove theirs", []executed{removed, made, {del, failed, none, macvlan}}, false},
		{"changed later", []executed{removed, made, {check, failed, bridge, link("eth0", "veth")}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var want, got []stage
			for _, s := range tt.steps {
				want, got = append(want, stage{s.step, outcomes{s.outcome}, s.want}), append(got, stage{s.step, outcomes{s.outcome}, s.got})
			}
			if d := firstDifference(want, got); d == "" != tt.same {
				t.Errorf("difference: %q", d)
			}
		})
	}
}

// TestNameTakenAfterDEL: DEL of macvlan fails in IPAM, and keeps a bridge that has the name.
func TestNameTakenAfterDEL(t *testing.T) {
	t.Parallel()
	c := macvlanFamily.with([]variant{prepared("", "ip -n sandbox link add eth0 type bridge")})
	c.Networks[0].Args = [][2]string{{"MAC", "02:00:00:00:00:13"}} // IPAM refuses this argument
	c.Steps = []string{add, del, add, check, del, add, vanish, del}
	requireSame(t, c)
}
