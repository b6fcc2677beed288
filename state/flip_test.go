// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFlippedBit: whichever bit of a line is flipped, it is damage, or says what it
// said. It is never of a newer version.
func TestFlippedBit(t *testing.T) {
	first := attachment("eth0", "")
	want := change{Attachment: &first}
	data, err := encode([]change{want})
	must(t, err)
	text := bytes.TrimSuffix(data, []byte("\n"))
	for at := range text {
		for bit := range 8 {
			flipped := slices.Clone(text)
			flipped[at] ^= 1 << bit
			got, err := decode(flipped)
			var newer *VersionError
			if errors.As(err, &newer) || err == nil && !cmp.Equal(got, want, cmp.AllowUnexported(change{})) {
				t.Errorf("%s is read as %+v, %v", flipped, got, err)
			}
		}
	}
}

// TestFlippedNewline: the lines around a damaged newline are damage, also at the end
// of a journal whose writer was killed; the others count, and so do later ones.
func TestFlippedNewline(t *testing.T) {
	for name, test := range map[string]struct {
		line   int
		killed bool
		want   []string
	}{
		"first":              {1, false, []string{"net1", "net2"}},
		"last":               {3, false, []string{"eth0", "net2"}},
		"first, with a lock": {1, true, []string{"net1", "net2"}},
		"last, with a lock":  {3, true, []string{"eth0", "net2"}},
	} {
		for bit := range 8 {
			s := open(t)
			l := lock(t, s, "a")
			must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup, Netns: "n"}, []Attachment{attachment("eth0", ""), attachment("net1", "")}))
			damage(t, l, func(data []byte) []byte {
				lines := bytes.SplitAfter(data, []byte("\n"))
				lines[test.line-1][len(lines[test.line-1])-1] ^= 1 << bit
				return bytes.Join(lines, nil)
			})
			l.Unlock()
			if test.killed {
				must(t, os.WriteFile(s.lockPath("a"), nil, 0o600))
			}
			l = lock(t, s, "a")
			must(t, l.Write(attachment("net2", "")))
			r, err := l.Load()
			var got []string
			for _, a := range r.Attachments {
				got = append(got, a.Interface)
			}
			if err != nil || len(r.Damaged) == 0 || !slices.Equal(got, test.want) {
				t.Errorf("%s, bit %d: attachments %v, damage %v, %v", name, bit, got, r.Damaged, err)
			}
		}
	}
}

// TestMissingNewline: what a killed writer left without its newline alone counts.
func TestMissingNewline(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup}, []Attachment{attachment("eth0", "")}))
	writing(t, l, attachment("net1", ""))
	l.Unlock()
	must(t, os.WriteFile(s.lockPath("a"), nil, 0o600)) // as after kill -9
	l = lock(t, s, "a")
	if r, err := l.Load(); err != nil || len(r.Damaged) != 0 || len(r.Attachments) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}
