// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/exhaustive"
)

// actAs names what a test has the test binary do in a process of its own.
const actAs = "ALLOCNET_STATE_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(actAs) == "holder" {
		time.Sleep(time.Hour) // keeps what it inherited; the test kills it
	}
	os.Exit(exhaustive.InMemory(m.Run))
}

func attachment(iface, text string) Attachment {
	conflist, _ := json.Marshal(map[string]string{"name": text})
	return Attachment{Network: "n", Interface: iface, Batch: Batch{Kind: BatchSetup}, Index: len(iface), Phase: Adding, ConfList: conflist}
}

func open(t testing.TB) *Store {
	t.Helper()
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func lock(t testing.TB, s *Store, id string) *Locked {
	t.Helper()
	l, err := s.Lock(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Unlock)
	return l
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// damage replaces the journal by what how makes of it.
func damage(t testing.TB, l *Locked, how func([]byte) []byte) []byte {
	t.Helper()
	l.journal.mu.Lock()
	l.journal.close()
	l.journal.mu.Unlock()
	data, err := os.ReadFile(l.journal.path())
	must(t, err)
	damaged := how(data)
	must(t, os.WriteFile(l.journal.path(), damaged, 0o600))
	return damaged
}

// onLine changes one line of a journal, counted from 1.
func onLine(n int, how func([]byte) []byte) func([]byte) []byte {
	return func(data []byte) []byte {
		lines := bytes.SplitAfter(data, []byte("\n"))
		lines[n-1] = how(bytes.TrimSuffix(lines[n-1], []byte("\n")))
		lines[n-1] = append(lines[n-1], '\n')
		return bytes.Join(lines, nil)
	}
}

func readers(s *Store, l *Locked) map[string]func() (Record, error) {
	return map[string]func() (Record, error){
		"with the lock": l.Load,
		"without":       func() (Record, error) { return s.Read(l.id) },
	}
}

// reseal changes a line and gives it the right checksum.
func reseal(t *testing.T, data []byte, from, to string) []byte {
	t.Helper()
	var e line
	must(t, json.Unmarshal(data, &e))
	e.Record = []byte(strings.ReplaceAll(string(e.Record), from, to))
	e.SHA256 = checksum(e.Version, e.Record)
	sealed, err := json.Marshal(e)
	must(t, err)
	return sealed
}

// newer is a line of a version to come.
func newer() []byte {
	record := `{"new":true}`
	return fmt.Appendf(nil, `{"version":99,"sha256":%q,"record":%s}`+"\n", checksum(99, []byte(record)), record)
}
