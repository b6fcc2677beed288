// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// change is what one line of a journal says. One of its fields is set.
type change struct {
	Allocation *Allocation `json:"allocation,omitempty"`
	Attachment *Attachment `json:"attachment,omitempty"`
	// Attachments are several that change at once.
	Attachments []Attachment `json:"attachments,omitempty"`
	// Deleting are attachments on record whose removal begins.
	Deleting []deletion `json:"deleting,omitempty"`
	// Forgotten is the interface of an attachment that is gone.
	Forgotten string `json:"forgotten,omitempty"`
}

// deletion says of an attachment that DEL begins, in few bytes.
type deletion struct {
	Interface string `json:"interface"`
	// Batch is that of a Detach; empty: the attachment keeps its own.
	Batch Batch `json:"batch,omitzero"`
}

// line is the form of a change in the file. The first one begins with the size of the file in digits of a fixed number, which
// are written over: a file that was cut where a line ends is not taken for whole. No checksum covers them.
type line struct {
	Size    string          `json:"size,omitempty"`
	Version int             `json:"version"`
	SHA256  string          `json:"sha256"`
	Record  json.RawMessage `json:"record"`
}

// encode returns the changes as lines.
func encode(changes []change) ([]byte, error) {
	var lines []byte
	for _, c := range changes {
		if err := c.validate(); err != nil {
			return nil, err
		}
		data, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		data, err = json.Marshal(line{Version: FormatVersion, SHA256: checksum(FormatVersion, data), Record: data})
		if err != nil {
			return nil, err
		}
		lines = append(append(lines, data...), '\n')
	}
	return lines, nil
}

// sizeKey is before the size of a journal, which has sizeDigits.
const (
	sizeKey    = `{"size":"`
	sizeDigits = 12
)

func sizeText(size int64) string { return fmt.Sprintf("%0*d", sizeDigits, size) }

// first makes lines the first ones of a journal.
func first(lines []byte) []byte {
	size := len(lines) + len(sizeKey) + sizeDigits + len(`",`) - len("{")
	return append([]byte(sizeKey+sizeText(int64(size))+`",`), lines[len("{"):]...)
}

// sizeIn returns the size that the first line of a journal has, 0 if it has none.
func sizeIn(journal []byte) int64 {
	text, found := strings.CutPrefix(string(journal[:min(len(journal), len(sizeKey)+sizeDigits)]), sizeKey)
	size, err := strconv.ParseInt(text, 10, 64)
	if !found || err != nil || len(text) < sizeDigits {
		return 0
	}
	return size
}

// decode reads one line.
func decode(data []byte) (c change, err error) {
	l, ok, err := split(data)
	if err != nil {
		return c, err
	}
	if !ok && l.SHA256 != checksum(l.Version, l.Record) {
		return c, errors.New("checksum does not match")
	}
	if l.Version > FormatVersion {
		return c, &VersionError{Version: l.Version}
	}
	if err := json.Unmarshal(l.Record, &c); err != nil {
		return c, err
	}
	return c, c.validate()
}

// split reads the parts of a line. The record of one that is as it was written, which its checksum proves, is decoded once: ok is true.
func split(data []byte) (l line, ok bool, err error) {
	head, record, found := bytes.Cut(data, []byte(`,"record":`))
	record, ended := bytes.CutSuffix(record, []byte("}"))
	if found && ended && json.Unmarshal(append(bytes.Clone(head), '}'), &l) == nil && l.SHA256 == checksum(l.Version, record) {
		l.Record = record
		return l, true, nil
	}
	l = line{}
	return l, false, json.Unmarshal(data, &l)
}

func (c change) validate() (err error) {
	if c.Allocation != nil {
		return c.Allocation.Mode.validate()
	}
	for _, a := range c.attachments() {
		err = errors.Join(err, validateInterface(a.Interface), a.Batch.validate())
	}
	for _, d := range c.Deleting {
		err = errors.Join(err, validateInterface(d.Interface))
		if d.Batch != (Batch{}) {
			err = errors.Join(err, d.Batch.validate())
		}
	}
	if c.Forgotten == "" && len(c.attachments())+len(c.Deleting) == 0 {
		return errors.New("says nothing")
	}
	return err
}

// allocation returns whose line it is; empty: it does not say so.
func (c change) allocation() string {
	if c.Allocation != nil {
		return c.Allocation.ID
	}
	for _, a := range c.attachments() {
		return AllocationOf(a.ContainerID)
	}
	return ""
}

// attachments returns those that the line is of.
func (c change) attachments() []Attachment {
	if c.Attachment != nil {
		return []Attachment{*c.Attachment}
	}
	return c.Attachments
}

func (m Mode) validate() error {
	if m.Valid() {
		return nil
	}
	return fmt.Errorf("allocation has mode %q, want %q, %q or %q", m, ModeSetup, ModeExtend, ModeUnknown)
}

func (b Batch) validate() error {
	if b.Valid() {
		return nil
	}
	return fmt.Errorf("attachment has a batch of kind %q, want %q, %q or %q", b.Kind, BatchSetup, BatchExtend, BatchDetach)
}

// validateInterface refuses what is no name; its form is the caller's matter.
func validateInterface(name string) error {
	if name == "" || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("interface name %q cannot be recorded", name)
	}
	return nil
}

// changes returns the lines that make the record.
func (r Record) changes() []change {
	list := []change{{Allocation: &r.Allocation}}
	for i := range r.Attachments {
		list = append(list, change{Attachment: &r.Attachments[i]})
	}
	return list
}

// checksum covers the version, and is the same in all that come: so damage to the
// version is told from a newer one.
func checksum(version int, record []byte) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\n%s", version, record))
	return hex.EncodeToString(sum[:])
}
