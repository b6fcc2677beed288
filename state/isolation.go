// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/internal/files"
)

// Isolation is how an attachment is kept apart from others. What the host has for it is under the name of its end on the host and its
// addresses, which are on record before the host gets it.
type Isolation struct {
	// Level is that of its network.
	Level string `json:"level"`
	// Antispoof is whether frames from its end pass only with its MAC and addresses.
	Antispoof bool `json:"antispoof,omitempty"`
	// NoHost is whether the host does not reach it, but by rules.
	NoHost bool `json:"noHost,omitempty"`
	// Narrowing is what its job leaves of its traffic.
	Narrowing allocation.Narrowing `json:"narrowing,omitzero"`
	// Inside is whether it is kept apart in the namespace of its allocation, where its interface is on record. Then it has no end on the host.
	Inside bool `json:"inside,omitempty"`
	// End is the name of its end on the host, and Bridge that of which it is a port; empty: of none.
	End    string `json:"end"`
	Bridge string `json:"bridge,omitempty"`
	// MAC is that of its interface, and Addresses are those that it gets. Empty: ADD has not come to that.
	MAC       string       `json:"mac,omitempty"`
	Addresses []netip.Addr `json:"addresses,omitempty"`
}

// Unplaced is what is wanted of it, without where it is.
func (i Isolation) Unplaced() *Isolation {
	i.End, i.Bridge, i.MAC, i.Addresses = "", "", "", nil
	return &i
}

// isolationDir is the directory of HostIsolation.
const isolationDir = "isolation"

// HostIsolation is what is on record of the isolation of the host as a whole.
type HostIsolation struct {
	dir  string
	disk disk
}

// Isolation returns that on record.
func (s *Store) Isolation() HostIsolation {
	return HostIsolation{filepath.Join(s.dir, isolationDir), s.disk}
}

// Lock is held from when the records are read until the host has what they say. Then no attachment records or adds its own.
func (i HostIsolation) Lock(ctx context.Context) (unlock func(), err error) {
	return files.LockDir(ctx, i.dir, unix.LOCK_EX)
}

// RLock is held from when an attachment is recorded until the host has what it needs, together with others.
func (i HostIsolation) RLock(ctx context.Context) (unlock func(), err error) {
	return files.LockDir(ctx, i.dir, unix.LOCK_SH)
}

// InForce returns the rules that the host has since this boot; nil: nothing is isolated.
func (i HostIsolation) InForce() (rules []byte, err error) {
	data, err := files.IfExists(files.ReadNoFollow(i.file()))
	if err != nil || data == nil {
		return nil, err
	}
	boot, err := BootID()
	rules, isOfThisBoot := bytes.CutPrefix(data, []byte(boot+"\n"))
	if err != nil || !isOfThisBoot || !json.Valid(rules) { // one that a power cut has torn is of an earlier boot
		return nil, err
	}
	return rules, nil
}

// Prepared returns what was recorded with the rules in force, so that each attach has not to read those; nil: nothing, or another version of allocnet
// has recorded rules since.
func (i HostIsolation) Prepared() ([]byte, error) {
	head, err := i.preparedHead()
	if err != nil || head == "" {
		return nil, err
	}
	data, err := files.IfExists(files.ReadNoFollow(i.preparedFile()))
	if prepared, ok := bytes.CutPrefix(data, []byte(head)); ok {
		return prepared, err
	}
	return nil, err
}

// Identity tells what Prepared returns from what it has returned before; empty: it is not known.
func (i HostIsolation) Identity() string {
	of, is := files.Identity(i.file()), files.Identity(i.preparedFile())
	if of == "" || is == "" {
		return ""
	}
	return of + " " + is
}

// preparedHead tells which boot and which rules in force it is of; empty: there are none.
func (i HostIsolation) preparedHead() (string, error) {
	info, err := files.IfExists(os.Lstat(i.file()))
	if info == nil {
		return "", err
	}
	boot, err := BootID()
	is, _ := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%s\n%d %d %d\n", boot, is.Ino, info.ModTime().UnixNano(), info.Size()), err
}

// SetInForce records rules, which are JSON, before the host gets them, with what Prepared returns of them; nil: when nothing is isolated any more. It
// need not outlast a power cut, as the rules do not. The caller holds Lock.
func (i HostIsolation) SetInForce(rules, prepared []byte) error {
	if err := i.disk.removeFile(i.preparedFile()); err != nil { // it is of others
		return err
	}
	if rules == nil {
		for _, path := range []string{i.textFile(), i.file()} { // the file is what tells the next one that there is something to remove
			if err := i.disk.removeFile(path); err != nil {
				return err
			}
		}
		return i.disk.removeFile(i.textFile()) // again after the file: see SetTextSum
	}
	boot, err := BootID()
	if err != nil {
		return err
	}
	err = i.disk("write", i.file(), func() error { return files.Replace(i.file(), append([]byte(boot+"\n"), rules...), files.Options{}) })
	if err != nil {
		return err
	}
	head, err := i.preparedHead()
	if err != nil {
		return err
	}
	return i.disk("write", i.preparedFile(), func() error {
		return files.Replace(i.preparedFile(), append([]byte(head), prepared...), files.Options{})
	})
}

// TextSum returns the sum of a text that was recorded for the identity of its file (files.Identity) in this boot; empty: none.
func (i HostIsolation) TextSum(identity string) string {
	head, err := textHead(identity)
	data, _ := files.ReadNoFollow(i.textFile()) // without it the text is read
	sum, ok := bytes.CutPrefix(data, []byte(head))
	if err != nil || !ok {
		return ""
	}
	return string(sum)
}

// SetTextSum records it, unless no rules are in force. It need not outlast a power cut. Others may do so at the same time.
func (i HostIsolation) SetTextSum(identity, sum string) error {
	head, err := textHead(identity)
	if err != nil {
		return err
	}
	err = i.disk("write", i.textFile(), func() error { return files.Replace(i.textFile(), []byte(head+sum), files.Options{Unlocked: true}) })
	if info, errFile := files.IfExists(os.Lstat(i.file())); err == nil && errFile == nil && info == nil { // SetInForce may have been before
		return i.disk.removeFile(i.textFile())
	}
	return err
}

func textHead(identity string) (string, error) {
	boot, err := BootID()
	return boot + "\n" + identity + "\n", err
}

// learnedPrefix begins the names of files of what is known of other hosts; the name of the pool is the rest.
const learnedPrefix = "learned-"

// Learned is what is on record of the attachments on other hosts that have addresses of a pool.
type Learned struct {
	Pool    string
	Content []byte
	// Read is when it was known last that the others say so.
	Read time.Time
}

// Learned returns what is on record of other hosts. It outlasts a reboot: a host whose store does not answer knows of others what it did. What is not
// JSON, as what a power cut has torn, is nothing.
func (i HostIsolation) Learned() (all []Learned, err error) {
	entries, err := files.IfExists(os.ReadDir(i.dir))
	for _, e := range entries {
		pool, ok := strings.CutPrefix(e.Name(), learnedPrefix)
		if !ok {
			continue
		}
		content, errFile := files.ReadNoFollow(filepath.Join(i.dir, e.Name()))
		info, errInfo := e.Info()
		if errors.Is(errFile, fs.ErrNotExist) || errors.Is(errInfo, fs.ErrNotExist) {
			continue // it has just gone
		}
		if errFile != nil || errInfo != nil {
			err = errors.Join(err, errFile, errInfo)
			continue
		}
		if json.Valid(content) {
			all = append(all, Learned{pool, content, info.ModTime()})
		}
	}
	return all, err
}

// SetLearned records what the other hosts of a pool say, which is JSON, before the host gets it, and when it was read; nil: nothing is known any more.
// Until EndLearning the host may have something else. The caller holds Lock.
func (i HostIsolation) SetLearned(pool string, content []byte, read time.Time) error {
	if err := i.beginLearning(pool); err != nil {
		return err
	}
	if content == nil {
		return i.disk.removeFile(i.learned(pool))
	}
	write := func() error { return files.Replace(i.learned(pool), content, files.Options{}) }
	if err := i.disk("write", i.learned(pool), write); err != nil {
		return err
	}
	return i.ConfirmLearned(pool, read)
}

// beginLearning adds what the other hosts of a pool have said to what the host may have. One who is killed while he learns, or fails, has not
// ended the flows of those that are gone.
func (i HostIsolation) beginLearning(pool string) error {
	latest, err := files.IfExists(files.ReadNoFollow(i.learned(pool)))
	if err != nil {
		return err
	}
	before, err := i.Former()
	if err != nil {
		return err
	}
	former := joined(before, latest)
	if i.IsLearning() && bytes.Equal(former, before) {
		return nil
	}
	return i.disk("write", i.learning(), func() error { return files.Replace(i.learning(), former, files.Options{}) })
}

// joined is a list of JSON with all elements of two lists, each once. What is no list has none, and none are no list.
func joined(one, other []byte) []byte {
	var all []json.RawMessage
	for _, list := range [][]byte{one, other} {
		var elements []json.RawMessage
		if json.Unmarshal(list, &elements) != nil {
			continue
		}
		for _, e := range elements {
			if !slices.ContainsFunc(all, func(has json.RawMessage) bool { return bytes.Equal(has, e) }) {
				all = append(all, e)
			}
		}
	}
	if all == nil {
		return nil
	}
	text, _ := json.Marshal(all) // each was read as JSON
	return text
}

// Former returns what the other hosts of pools said since the host had all that they say, as long as it may have that; nil: nothing, or it is not
// known.
func (i HostIsolation) Former() ([]byte, error) {
	former, err := files.ReadNoFollow(i.learning())
	if errors.Is(err, fs.ErrNotExist) || !json.Valid(former) {
		return nil, nil
	}
	return former, err
}

// ConfirmLearned records when it was read that the other hosts of a pool say the same as before.
func (i HostIsolation) ConfirmLearned(pool string, read time.Time) error {
	return i.disk("chtimes", i.learned(pool), func() error { return os.Chtimes(i.learned(pool), read, read) })
}

// IsLearning is whether the host may lack something of what is learned, or have something else.
func (i HostIsolation) IsLearning() bool {
	_, err := os.Lstat(i.learning())
	return !errors.Is(err, fs.ErrNotExist)
}

// EndLearning is called when the host has what is learned.
func (i HostIsolation) EndLearning() error {
	if !i.IsLearning() {
		return nil
	}
	return i.disk.removeFile(i.learning())
}

func (i HostIsolation) learned(pool string) string { return filepath.Join(i.dir, learnedPrefix+pool) }

func (i HostIsolation) learning() string { return filepath.Join(i.dir, "learning") }

func (i HostIsolation) file() string { return filepath.Join(i.dir, "in-force") }

func (i HostIsolation) textFile() string { return filepath.Join(i.dir, "text") }

func (i HostIsolation) preparedFile() string { return filepath.Join(i.dir, "prepared") }
