// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"bytes"
	"os"
	"testing"
)

// TestCutJournal: a journal that something else has cut is damaged wherever that was, also where a line ends, for every reader
// and after further lines. Whether a process was killed before does not matter.
func TestCutJournal(t *testing.T) {
	for name, w := range writtenCalls {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			s.Intercept(withoutSync)
			l := lock(t, s, "a")
			w.find(t, l)
			must(t, w.call(l))
			l.Unlock()
			whole, err := os.ReadFile(l.journal.path())
			if err != nil { // the call has removed it
				return
			}
			for cut := range whole {
				if isEnd := cut > 0 && whole[cut-1] == '\n'; !isEnd && (testing.Short() && cut%64 > 1 || len(whole) > 8<<10) {
					continue
				}
				must(t, os.WriteFile(l.journal.path(), whole[:cut], 0o600))
				if cut%2 == 0 {
					must(t, os.WriteFile(s.lockPath("a"), nil, 0o600)) // as after kill -9
				}
				if r, err := s.Read("a"); err != nil || len(r.Damaged) == 0 {
					t.Fatalf("cut at %d of %d bytes: read without damage: %+v, %v", cut, len(whole), r, err)
				}
				l := lock(t, s, "a")
				requireDamage(t, l, cut)
				must(t, l.Write(attachment("net9", string(bytes.Repeat([]byte("x"), len(whole))))))
				requireDamage(t, l, cut)
				l.Unlock()
				l = lock(t, s, "a")
				requireDamage(t, l, cut)
				l.Unlock()
			}
		})
	}
}

func requireDamage(t *testing.T, l *Locked, cut int) {
	t.Helper()
	if r, err := l.Load(); err != nil || len(r.Damaged) == 0 {
		t.Fatalf("cut at %d: loaded without damage: %+v, %v", cut, r, err)
	}
}

// TestCutBeforeBoot: what a power cut has left of a journal is torn down as it is, or written on, also for
// what lives in this boot. Nothing of it lives.
func TestCutBeforeBoot(t *testing.T) {
	boot, err := BootID()
	must(t, err)
	for id, damaged := range map[string]int{boot: 1, "earlier": 0, "": 1} {
		s := open(t)
		l := lock(t, s, "a")
		must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup, BootID: id}, []Attachment{attachment("eth0", "")}))
		l.Unlock()
		data, err := os.ReadFile(l.journal.path())
		must(t, err)
		must(t, os.WriteFile(l.journal.path(), data[:bytes.IndexByte(data, '\n')+1], 0o600))
		if r, err := s.Read("a"); err != nil || len(r.Damaged) != damaged {
			t.Errorf("of boot %q: %+v, %v", id, r, err)
		}
		l = lock(t, s, "a")
		must(t, l.Write(attachment("net1", "")))
		must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup, BootID: boot}, []Attachment{attachment("net2", "")}))
		if r, err := s.Read("a"); err != nil || len(r.Damaged) != damaged {
			t.Errorf("of boot %q, written on: %+v, %v", id, r, err)
		}
		l.Unlock()
	}
}

// TestUnsized: what an earlier program wrote has no size, and is read and written on.
func TestUnsized(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	begun(t, l)
	damage(t, l, func(data []byte) []byte {
		return append([]byte("{"), data[len(sizeKey)+sizeDigits+len(`",`):]...)
	})
	must(t, l.Write(attachment("net2", "")))
	l.Unlock()
	if r, err := s.Read("a"); err != nil || len(r.Damaged) != 0 || len(r.Attachments) != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}
