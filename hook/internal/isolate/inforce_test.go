// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolate

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
	"github.com/allocnet/allocnet/state"
)

const oneRule = "allow \"a\" {\n  from { network = \"n\" }\n  to { network = \"m\" }\n}\n"

// newHostOnDisk is a host with a file of rules, of which nothing is in force.
func newHostOnDisk(t testing.TB) (h host, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "isolation.hcl")
	store, err := state.Open(t.TempDir())
	if err == nil {
		err = os.WriteFile(file, []byte(oneRule), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := config.Config{ConfDirs: []string{t.TempDir()}, IsolationFile: file}.WithDefaults()
	return host{&c, store}, file
}

func allOf(t *testing.T, w wanted) isolation.Rules {
	t.Helper()
	rules, err := w.Rules.All()
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// TestPrepared: what is in force is read as it was recorded, by the same build without the file of the rules, and by others from the rules themselves.
// It holds for the text of that file alone.
func TestPrepared(t *testing.T) {
	h, file := newHostOnDisk(t)
	if before, err := h.inForce(); err != nil || before != nil {
		t.Fatalf("before there is %v, %v", before, err)
	}
	w, _, err := h.load()
	if err != nil {
		t.Fatal(err)
	}
	w.Levels["n"], w.Levels["open"] = networkLevel{Level: isolation.Strict, Antispoof: true, NoHost: true}, networkLevel{Level: isolation.None, Antispoof: false, NoHost: false}
	if err := h.setInForce(w); err != nil {
		t.Fatal(err)
	}
	requireInForce := func(what string, isKnown bool) {
		t.Helper()
		found, err := h.inForce()
		if err != nil || found == nil {
			t.Fatalf("%s: %v, %v", what, found, err)
		}
		if diff := cmp.Diff([]any{allOf(t, w), w.Levels.kept()}, []any{allOf(t, *found), found.Levels}); diff != "" || (found.text != "") != isKnown || !found.isSame(w) {
			t.Errorf("%s: %s, of the text %q, the same: %t", what, diff, found.text, found.isSame(w))
		}
	}
	requireInForce("recorded", true)
	other := w
	other.Levels = networkLevels{"n": {Level: isolation.Network, Antispoof: true}}
	if w.isSame(other) {
		t.Error("another level is the same")
	}
	if now, inForce, err := h.load(); err != nil || &allOf(t, now).Allow[0] != &allOf(t, *inForce).Allow[0] || !now.isSame(*inForce) {
		t.Errorf("the rules of the same text are %v, %v, want those in force", now, err)
	}
	for _, text := range []string{oneRule + "\n", "allow"} { // a mistake leaves the former rules
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		now, inForce, err := h.load()
		if (err != nil) != (text == "allow") || now.isSame(*inForce) != (text == "allow") || now.Rules.Allow != 1 || len(allOf(t, now).Allow) != 1 {
			t.Errorf("%q: %v, %v", text, now, err)
		}
	}
	encoded, err := w.encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, prepared := range []string{"", "{}\n", `{"Build": "another"}`} {
		if err := h.store.Isolation().SetInForce(encoded, []byte(prepared)); err != nil {
			t.Fatal(err)
		}
		requireInForce("of another build", false)
	}
}

// TestTextSum: once the text of a file was read, a process that begins then finds the rules in force to be of it without that; and not after a change of the file.
func TestTextSum(t *testing.T) {
	h, file := newHostOnDisk(t)
	w, _, err := h.load()
	if err == nil {
		err = h.setInForce(w)
	}
	if err != nil {
		t.Fatal(err)
	}
	for files.Identity(file) == "" {
		time.Sleep(50 * time.Millisecond)
	}
	identity := files.Identity(file)
	if sum := h.store.Isolation().TextSum(identity); sum != "" {
		t.Errorf("before anything was read there is %q", sum)
	}
	if _, _, err := h.load(); err != nil || h.store.Isolation().TextSum(identity) != w.text {
		t.Errorf("after that there is %q, %v, want %q", h.store.Isolation().TextSum(identity), err, w.text)
	}
	if sum := h.store.Isolation().TextSum(identity + "0"); sum != "" {
		t.Errorf("of another file there is %q", sum)
	}
	unread, without := "/usr", *h.config // what has no text, so that to read it is an error
	without.IsolationFile = unread
	if err := h.store.Isolation().SetTextSum(files.Identity(unread), w.text); err != nil {
		t.Fatal(err)
	}
	if now, inForce, err := (host{&without, h.store}).load(); err != nil || !now.isSame(*inForce) {
		t.Errorf("a file of which the sum is on record is read: %v", err)
	}
	if err := h.store.Isolation().SetTextSum(identity, "another text"); err != nil { // what is recorded decides nothing by itself
		t.Fatal(err)
	}
	if now, inForce, err := h.load(); err != nil || !now.isSame(*inForce) || h.store.Isolation().TextSum(identity) != w.text {
		t.Errorf("with the sum of another text: %v, %v", now, err)
	}
	if err := os.WriteFile(file, []byte(oneRule+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if now, inForce, err := h.load(); err != nil || now.isSame(*inForce) {
		t.Errorf("the changed file is the same: %v", err)
	}
}

// TestReadPrepared: none of what is damaged is read.
func TestReadPrepared(t *testing.T) {
	w := wanted{Rules: filter.RulesOf(isolation.Rules{Allow: []isolation.Allow{{Name: "a"}}}), text: "sum"}
	data, err := w.prepare()
	if err != nil {
		t.Fatal(err)
	}
	for end := range data {
		damaged := lastPrepared{wanted: &w, data: []byte("of before")}
		if damaged.read(data[:end]); damaged.wanted != nil {
			t.Errorf("the first %d bytes of %d are read", end, len(data))
		}
	}
	var l lastPrepared
	l.read(data)
	first := l.wanted
	if l.read(bytes.Clone(data)); first == nil || l.wanted != first || first.text != "sum" {
		t.Errorf("%q is read as %v, and %v", data, first, l.wanted)
	}
}
