// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolate

import (
	"bytes"
	"encoding/json"

	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/version"
	"github.com/allocnet/allocnet/state"
)

// inForce returns what is in force; nil: nothing is isolated.
func (h host) inForce() (*wanted, error) {
	if w, err := recent.of(h.store.Isolation()); err != nil || w != nil {
		return w, err
	}
	encoded, err := h.store.Isolation().InForce()
	if err != nil || encoded == nil {
		return nil, err
	}
	w := &wanted{}
	_ = json.Unmarshal(encoded, w) // it is what encode has made, or nothing
	return w, nil
}

// setInForce records what is in force from now on.
func (h host) setInForce(w wanted) error {
	encoded, err := w.encode()
	if err != nil {
		return err
	}
	prepared, err := w.prepare()
	if err != nil {
		return err
	}
	return h.store.Isolation().SetInForce(encoded, prepared)
}

// preparedHead is the first line of what is prepared: the rules follow, as a build of allocnet has read them from the text.
type preparedHead struct {
	Build  string
	Text   string
	Levels networkLevels
}

// prepare returns what is recorded for those who read it often.
func (w wanted) prepare() ([]byte, error) {
	head, err := json.Marshal(preparedHead{version.Build(), w.text, w.Levels.kept()})
	if err != nil {
		return nil, err
	}
	return w.Rules.AppendBinary(append(head, '\n'))
}

// recent is what was read last: a process that attaches many reads the same each time.
var recent lastPrepared

// lastPrepared is what was prepared, and what it is, of which nothing changes.
type lastPrepared struct {
	kept   files.Kept[*wanted] // guards the rest
	data   []byte
	wanted *wanted
}

// of returns what is prepared on a host; nil: nothing that this build of allocnet has written.
func (l *lastPrepared) of(i state.HostIsolation) (*wanted, error) {
	return l.kept.Read(i.Identity, func() (*wanted, error) {
		data, err := i.Prepared()
		if err != nil {
			return nil, err
		}
		l.read(data)
		return l.wanted, nil
	})
}

func (l *lastPrepared) read(data []byte) {
	if l.wanted != nil && bytes.Equal(l.data, data) {
		return
	}
	l.data, l.wanted = data, nil
	first, rules, _ := bytes.Cut(data, []byte("\n"))
	head, w := preparedHead{}, &wanted{}
	if json.Unmarshal(first, &head) == nil && head.Build == version.Build() && w.Rules.UnmarshalBinary(rules) == nil {
		w.Levels, w.text = head.Levels, head.Text
		l.wanted = w
	}
}
