// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
)

func TestWriteAndRead(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	if _, err := l.Load(); !errors.Is(err, ErrNotFound) {
		t.Errorf("before: %v, want ErrNotFound", err)
	}
	a := Allocation{ID: "a", Mode: ModeSetup, Netns: "/run/netns/a", NetnsOwned: true, NetnsID: "1", BootID: "b", Digest: "d", Created: time.Unix(1, 0).UTC()}
	second := Attachment{
		Network: "n", Interface: "net1", Index: 1, Batch: Batch{BatchExtend, "d", 1}, Phase: Attached, ConfList: []byte(`{"a":"b"}`), Args: [][2]string{{"A", "b"}},
		CapabilityArgs: map[string]any{"ips": []any{"10.0.0.1"}}, PluginDirs: []string{"/p"}, DependsOn: []string{"eth0"}, Result: []byte(`{"r":1}`),
		Status: []byte(`{"s":1}`), Attempts: 2, Error: "e", Created: time.Unix(2, 0).UTC(), Updated: time.Unix(3, 0).UTC(),
	}
	first := Attachment{Network: "n", Interface: "eth0", Batch: Batch{Kind: BatchSetup}, Primary: true, Phase: Adding, ConfList: []byte(`{}`)}
	must(t, l.Begin(a, []Attachment{second, first}))
	want := Record{Allocation: a, Attachments: []Attachment{first, second}}
	for name, read := range map[string]func() (Record, error){
		"with the lock": l.Load, "without": func() (Record, error) { return s.Read("a") },
	} {
		if got, err := read(); err != nil || !cmp.Equal(want, got) {
			t.Errorf("%s: %v\n%s", name, err, cmp.Diff(want, got))
		}
	}
	must(t, l.Sync())
	first.Phase = Attached
	must(t, l.Write())
	must(t, l.Write(first))
	second.Phase = Deleting
	must(t, l.Write(first, second))
	if got, err := l.Load(); err != nil || !cmp.Equal([]Attachment{first, second}, got.Attachments) {
		t.Errorf("after one change of two: %+v, %v", got, err)
	}
	second.Phase = Pending
	must(t, l.WriteDurable(second))
	if got, err := l.Load(); err != nil || got.Attachments[0].Phase != Attached || got.Attachments[1].Phase != Pending {
		t.Errorf("after changes: %+v, %v", got, err)
	}
	must(t, l.Delete("eth0"))
	must(t, l.Delete("eth0"))
	if got, err := l.Load(); err != nil || len(got.Attachments) != 1 {
		t.Errorf("after a deletion: %+v, %v", got, err)
	}
	must(t, l.Clear())
	must(t, l.Clear())
	if _, err := s.Read("a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("after all: %v, want ErrNotFound", err)
	}
}

// TestPreviousRoutesEnd with their interface: what has its name later is another one.
func TestPreviousRoutesEnd(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	routes := []netns.Route{{Interface: "eth0", Gateway: netip.MustParseAddr("192.0.2.1")}}
	onNet3 := netns.Route{Interface: "net3", Gateway: routes[0].Gateway}
	older, newer, kept := attachment("net3", ""), attachment("net4", ""), attachment("net5", "")
	newer.PreviousRoutes, kept.PreviousRoutes = []netns.Route{onNet3, routes[0]}, []netns.Route{onNet3, routes[0]}
	for _, order := range [][]string{{"net3", "net4"}, {"net4", "net3"}} {
		must(t, l.Begin(Allocation{ID: "a", Mode: ModeExtend, PreviousRoutes: []netns.Route{onNet3}}, []Attachment{older, newer, kept}))
		for _, iface := range order {
			must(t, l.Delete(iface))
		}
		got, err := l.Load()
		if err != nil || !slices.Equal(got.Allocation.PreviousRoutes, routes) || !slices.Equal(got.Attachments[len(got.Attachments)-1].PreviousRoutes, routes) {
			t.Errorf("deleted in the order %v: %+v, %v, want no route on net3", order, got, err)
		}
	}
}

// TestPreviousRoutes of a deleted attachment are the allocation's, until the allocation
// is written again.
func TestPreviousRoutes(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	routes := []netns.Route{{Interface: "eth0", Gateway: netip.MustParseAddr("192.0.2.1")}}
	added := attachment("net1", "")
	added.PreviousRoutes = routes
	must(t, l.Begin(Allocation{ID: "a", Mode: ModeExtend}, []Attachment{added, attachment("net2", "")}))
	for range 2 {
		must(t, l.Delete("net1"))
		must(t, l.Delete("net2"))
	}
	got, err := l.Load()
	if err != nil || len(got.Attachments) > 0 || !slices.Equal(got.Allocation.PreviousRoutes, routes) {
		t.Errorf("after DEL: %+v, %v", got, err)
	}
	got.Allocation.PreviousRoutes = nil
	must(t, l.WriteAllocation(got.Allocation))
	if got, err := l.Load(); err != nil || len(got.Allocation.PreviousRoutes) > 0 {
		t.Errorf("when they are restored: %+v, %v", got, err)
	}
	for _, order := range [][]string{{"net3", "net4"}, {"net4", "net3"}} {
		older, newer := attachment("net3", ""), attachment("net4", "")
		older.PreviousRoutes, older.Index = routes, 3
		newer.PreviousRoutes, newer.Index = []netns.Route{{Interface: "net1", Gateway: routes[0].Gateway}}, 4
		must(t, l.Begin(Allocation{ID: "a", Mode: ModeExtend}, []Attachment{older, newer}))
		for _, iface := range order {
			must(t, l.Delete(iface))
		}
		got, err := l.Load()
		if want := slices.Concat(newer.PreviousRoutes, routes); err != nil || !slices.Equal(got.Allocation.PreviousRoutes, want) {
			t.Errorf("deleted in the order %v: %+v, %v, want %v", order, got.Allocation.PreviousRoutes, err, want)
		}
	}
	must(t, l.Clear())
	if err := l.WriteAllocation(got.Allocation); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a record: %v", err)
	}
}

func TestInvalidIDs(t *testing.T) {
	s := open(t)
	for _, id := range []string{"", ".", "..", "../x", "a/b", "a\x00b", "-a", "a b", "a.allocnet.net1", strings.Repeat("a", 129)} {
		if _, err := s.Lock(context.Background(), id); errdefs.Of(err) != errdefs.Refused {
			t.Errorf("Lock(%q): %v, want it refused", id, err)
		}
		if _, err := s.Read(id); errdefs.Of(err) != errdefs.Refused {
			t.Errorf("Read(%q): %v, want it refused", id, err)
		}
	}
	l := lock(t, s, "a")
	must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup}, nil))
	if err := l.WriteDurable(Attachment{Batch: Batch{Kind: BatchSetup}, Interface: "../x"}); err == nil {
		t.Error("an interface name left the directory")
	}
}

// FuzzRecord reads lines that are sealed as ours are, and files as they come.
func FuzzRecord(f *testing.F) {
	first := attachment("net1", "x")
	for _, c := range []change{{Attachment: &first}, {Allocation: &Allocation{ID: "a", Mode: ModeSetup}}, {Forgotten: "net1"}, {Attachments: []Attachment{first, attachment("net2", "")}}} {
		data, err := json.Marshal(c)
		must(f, err)
		f.Add(data, true)
	}
	f.Add(newer(), false)
	f.Add([]byte(`{"attachment":{"interface":"."}}`), true)
	f.Add([]byte("\n\x00"), false)
	s := open(f)
	f.Fuzz(func(t *testing.T, data []byte, sealed bool) {
		if sealed {
			var e line
			if text, err := json.Marshal(line{Version: FormatVersion, Record: data}); err != nil || json.Unmarshal(text, &e) != nil {
				return // no JSON, which has no checksum that holds
			}
			e.SHA256 = checksum(e.Version, e.Record)
			data, _ = json.Marshal(e)
			data = append(data, '\n')
		}
		l := lock(t, s, "a")
		defer l.Unlock()
		must(t, errors.Join(os.RemoveAll(l.journal.dir), os.Mkdir(l.journal.dir, 0o700), os.WriteFile(l.journal.path(), data, 0o600)))
		r, err := l.Load()
		if err != nil {
			return
		}
		if r.Allocation.ID != "a" {
			t.Errorf("%q is of allocation %q", data, r.Allocation.ID)
		}
		must(t, l.Repair(r))
		again, err := l.Load()
		must(t, err)
		r.Damaged, again.Damaged = nil, nil // what nothing tells is damage again
		first, _ := json.Marshal(r)
		second, _ := json.Marshal(again)
		if !bytes.Equal(first, second) {
			t.Errorf("%q is read as %s, and written as %s", data, first, second)
		}
	})
}

// TestErrors: each says what it is about, and its kind.
func TestErrors(t *testing.T) {
	cause := errors.New("disk fault")
	for text, test := range map[string]struct {
		err  error
		kind errdefs.Kind
	}{
		"/j has format version 9, this program knows 3: use the newer program": {&VersionError{"/j", 9}, errdefs.Failed},
		"record of allocation a cannot be read: disk fault":                    {&UnreadableError{"a", cause}, errdefs.Failed},
		`allocation ID "-": is bad`:                                            {invalidID("-", "is bad"), errdefs.Refused},
	} {
		if got := test.err.Error(); got != text {
			t.Errorf("got %s, want %s", got, text)
		}
		if got := errdefs.Of(test.err); got != test.kind {
			t.Errorf("%s has kind %v, want %v", text, got, test.kind)
		}
	}
	if !errors.Is(&UnreadableError{"a", cause}, cause) {
		t.Error("the cause of an UnreadableError is lost")
	}
	for want, damaged := range map[string]Damaged{"/j: disk fault": {"/j", 0, cause}, "/j, line 3: disk fault": {"/j", 3, cause}} {
		if got := damaged.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestNothingIsRecorded of an interface without a name, and of what is not begun.
func TestNothingIsRecorded(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	for name, test := range map[string]struct {
		call func() error
		want error
	}{
		"Write":  {func() error { return l.Write(attachment("eth0", "")) }, fs.ErrNotExist},
		"Sync":   {l.Sync, fs.ErrNotExist},
		"Delete": {func() error { return l.Delete("eth0") }, nil},
		"Repair": {func() error { return l.Repair(Record{}) }, fs.ErrNotExist},
	} {
		if err := test.call(); !errors.Is(err, test.want) {
			t.Errorf("%s of what is not begun: %v", name, err)
		}
	}
	begun(t, l)
	unmarshalable := Attachment{Interface: "eth0", Batch: Batch{Kind: BatchSetup}, CapabilityArgs: map[string]any{"x": func() {}}}
	broken := Attachment{Interface: "eth0", Batch: Batch{Kind: BatchSetup}, ConfList: []byte("{")}
	before := describe(l.Load())
	for name, call := range map[string]func() error{
		"Begin, no name":    func() error { return l.Begin(Allocation{ID: "a", Mode: ModeSetup}, []Attachment{{}}) },
		"Write, no name":    func() error { return l.Write(Attachment{}) },
		"Delete, no name":   func() error { return l.Delete("a/b") },
		"Write of no JSON":  func() error { return l.Write(unmarshalable) },
		"Write of bad JSON": func() error { return l.WriteDurable(broken) },
	} {
		if err := call(); err == nil || describe(l.Load()) != before {
			t.Errorf("%s: %v, recorded is %s", name, err, describe(l.Load()))
		}
	}
}
