// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package chaos

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

func (h *host) journal() string { return h.state + "/allocations/k1/journal" }

// spoil changes the journal of k1.
func (h *host) spoil(how func([]byte) []byte) {
	h.Helper()
	data, err := os.ReadFile(h.journal())
	if err != nil {
		h.Fatal(err)
	}
	sandbox.WriteFile(h, h.journal(), string(how(data)))
}

// spoilLine changes one line of the journal, from 0.
func (h *host) spoilLine(n int, how func([]byte) []byte) {
	h.Helper()
	h.spoil(func(data []byte) []byte {
		lines := bytes.SplitAfter(data, []byte("\n"))
		lines[n] = append(how(bytes.TrimSuffix(lines[n], []byte("\n"))), '\n')
		return bytes.Join(lines, nil)
	})
}

// lines returns the number of lines in the journal of the allocation that stand attaches.
func (h *host) lines() int {
	h.Helper()
	stand(h)
	data, err := os.ReadFile(h.journal())
	if err != nil {
		h.Fatal(err)
	}
	h.must(detach...)
	return bytes.Count(data, []byte("\n"))
}

// requireTraffic connects from k1 to the host through two networks, and to the port
// that k1 publishes.
func (h *host) requireTraffic() {
	h.Helper()
	ns, err := netns.Open(netns.DefaultDir + "/k1")
	if err != nil {
		h.Fatal(err)
	}
	defer ns.Close()
	outside, err := net.Listen("tcp4", ":0")
	if err != nil {
		h.Fatal(err)
	}
	defer outside.Close()
	port := outside.Addr().(*net.TCPAddr).Port
	for _, gateway := range []string{"10.188.0.1", "10.190.0.1"} {
		if err := ns.Do(func() error { return connect(fmt.Sprintf("%s:%d", gateway, port)) }); err != nil {
			h.Errorf("from k1: %v", err)
		}
	}
	var inside net.Listener
	if err := ns.Do(func() (err error) { inside, err = net.Listen("tcp4", ":80"); return err }); err != nil {
		h.Fatal(err)
	}
	defer inside.Close()
	if err := connect("10.188.0.1:8080"); err != nil {
		h.Errorf("to k1: %v", err)
	}
}

// connect returns when the kernel of the other side has answered.
func connect(address string) error {
	conn, err := net.DialTimeout("tcp4", address, time.Minute)
	if err != nil {
		return err
	}
	return conn.Close()
}

// requireUnharmed runs each command, integration and GC that reads a damaged record: the
// allocation remains as it is, and each reports the damage.
func (h *host) requireUnharmed() {
	h.Helper()
	damaged, err := os.ReadFile(h.journal())
	if err != nil {
		h.Fatal(err)
	}
	before := sandbox.Snapshot(h)
	for range 2 {
		h.refuse("record is damaged", "check", "k1")
		if out := h.must("status", "k1"); !strings.Contains(out, "journal") {
			h.Errorf("status does not show the damage:\n%s", out)
		}
		h.must(collect...)
		doctor := h.allocnet("doctor")
		if doctor.code != 1 || !strings.Contains(doctor.text, "allocnet check --repair k1") || strings.Contains(doctor.text, "cleanup") {
			h.Errorf("doctor: exit code %d\n%s", doctor.code, doctor.text)
		}
		if o := h.allocnet("cleanup", "k1"); o.code != 2 {
			h.Errorf("cleanup: exit code %d, want 2\n%s", o.code, o.text)
		}
		if o := h.allocnet("cleanup", "k1", "--forget"); o.code != 2 {
			h.Errorf("cleanup --forget: exit code %d, want 2\n%s", o.code, o.text)
		}
	}
	d := &daemon{host: h}
	d.serve() // its first round is over when it is ready
	d.stop()
	h.requireTraffic()
	sandbox.RequireSame(h, before)
	if now, err := os.ReadFile(h.journal()); err != nil || !bytes.Equal(now, damaged) {
		h.Errorf("the journal is not as it was (%v)", err)
	}
}

// forgetKept removes the damaged file that a repair kept. It fails the test if there is none.
func (h *host) forgetKept() {
	h.Helper()
	if kept, _ := filepath.Glob(h.state + "/damaged/k1/journal.*"); len(kept) == 0 {
		h.Error("the damaged file is not kept")
	}
	if err := os.RemoveAll(h.state + "/damaged"); err != nil {
		h.Fatal(err)
	}
}

// TestLongDamageOfTheLiving damages each line of the record of a live allocation, in turn. No
// command and no GC changes the allocation. A repair, or a teardown, has all the data that
// it needs.
func TestLongDamageOfTheLiving(t *testing.T) {
	h := newHost(t)
	n := h.lines()
	for line := range n {
		t.Run(fmt.Sprintf("line %d", line+1), func(t *testing.T) {
			h := h.on(t)
			stand(h)
			h.spoilLine(line, func(b []byte) []byte { return b[:len(b)/2] })
			if line%3 == 0 { // with all commands and GC
				h.requireUnharmed()
			}
			if line%2 == 0 {
				h.must("check", "--repair", "k1")
				h.must("check", "k1")
				stand(h) // returns the recorded allocation
				h.requireTraffic()
			}
			h.must(detach...)
			h.forgetKept()
			h.requireSame()
		})
	}
}

// TestLongLostJournal: if the whole journal is unreadable, the data is in libcni's cache.
func TestLongLostJournal(t *testing.T) {
	h := newHost(t)
	for name, how := range map[string]func([]byte) []byte{
		"empty":                   func([]byte) []byte { return nil },
		"zeros":                   func(b []byte) []byte { return make([]byte, len(b)) },
		"without its end":         func(b []byte) []byte { return b[:len(b)-20] },
		"behind its first line":   func(b []byte) []byte { return b[:bytes.IndexByte(b, '\n')+1] },
		"behind the last but one": func(b []byte) []byte { return b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1] },
		"without its first lines": func(b []byte) []byte { return b[len(b)-100:] },
	} {
		t.Run(name, func(t *testing.T) {
			h := h.on(t)
			stand(h)
			h.spoil(how)
			h.requireUnharmed()
			h.must("check", "--repair", "k1")
			h.must("check", "k1")
			h.spoil(how)
			h.must(detach...)
			h.forgetKept()
			h.requireSame()
		})
	}
}

// TestNothingReadable: an allocation of which nothing can be read, also not in libcni's cache, stays
// on record, and lives as long as its namespace exists. After that it can be forgotten, with all
// that it left.
func TestNothingReadable(t *testing.T) {
	h := newHost(t)
	stand(h)
	h.spoil(func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(`"sha256"`), []byte(`"sha512"`)) })
	cached, _ := filepath.Glob("/var/lib/cni/results/*-k1*")
	for _, path := range cached {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	before := sandbox.Snapshot(h)
	const remedy = "allocnet cleanup k1 --forget"
	h.refuse(remedy, detach...)
	h.refuse(remedy, "check", "--repair", "k1")
	h.must(collect...)
	for _, args := range [][]string{{"cleanup", "k1"}, {"cleanup", "k1", "--forget"}} {
		if o := h.allocnet(args...); o.code != 2 || !strings.Contains(o.text, "not dead") {
			h.Errorf("%s: exit code %d, want 2\n%s", args, o.code, o.text)
		}
	}
	h.requireTraffic()
	sandbox.RequireSame(h, before)
	if err := netns.Remove(netns.DefaultDir + "/k1"); err != nil {
		t.Fatal(err)
	}
	h.refuse(remedy, detach...)
	h.must("cleanup", "k1", "--forget")
	h.forgetKept()
}

// TestDamageOfTheDead: an allocation with a damaged record is collected if a readable line
// or cached result proves that its namespace is gone.
func TestDamageOfTheDead(t *testing.T) {
	h := newHost(t)
	random := chance(seed, 0)
	for round := range 4 {
		t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) {
			h := h.on(t)
			stand(h)
			h.flipBits(random)
			if err := netns.Remove(netns.DefaultDir + "/k1"); err != nil {
				t.Fatal(err)
			}
			h.must(collect...)
			h.forgetKept()
			h.requireSame()
		})
	}
}

// flipBits flips a bit in some lines of the journal, behind the outer keys: encoding/json
// ignores the case of a key, so another case is no damage.
func (h *host) flipBits(random *rand.Rand) {
	h.Helper()
	h.spoil(func(data []byte) []byte {
		lines := bytes.SplitAfter(data, []byte("\n"))
		for i, line := range lines[:len(lines)-1] {
			if i != 0 && random.IntN(2) == 0 {
				continue
			}
			key := []byte(`"record":{"`)
			from := bytes.Index(line, key) + len(key)
			line[from+random.IntN(len(line)-1-from)] ^= 1 << random.IntN(8)
		}
		return bytes.Join(lines, nil)
	})
}
