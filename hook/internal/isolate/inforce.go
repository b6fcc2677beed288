// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolate

import (
	"bytes"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/version"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
	"github.com/allocnet/allocnet/state"
)

// inForce returns what is in force; nil: nothing is isolated.
func (h host) inForce() (*wanted, error) {
	if w, err := recent.of(h.store.Isolation()); err != nil || w != nil {
		return w, err
	}
	text, err := h.store.Isolation().InForce()
	if err != nil || text == nil {
		return nil, err
	}
	var e encoded
	_ = json.Unmarshal(text, &e) // it is what encode has made, or nothing
	return &wanted{Rules: filter.RulesOf(e.Rules), Levels: e.Levels}, nil
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
	Build         string
	Text          string
	Levels        networkLevels
	Sum           string // filter.Sum of the rules
	Allow, Egress int    // how many there are
}

// prepare returns what is recorded for those who read it often.
func (w wanted) prepare() ([]byte, error) {
	rules, err := w.Rules.All()
	if err != nil {
		return nil, err
	}
	encoded, err := rules.AppendBinary(nil)
	if err != nil {
		return nil, err
	}
	head, err := json.Marshal(preparedHead{version.Build(), w.text, w.Levels.kept(), filter.Sum(encoded), len(rules.Allow), len(rules.Egress)})
	return append(append(head, '\n'), encoded...), err
}

// preparedRules are read of what is prepared when they are needed: all of them once.
func preparedRules(head preparedHead, encoded []byte) filter.Rules {
	var isRead atomic.Bool
	whole := sync.OnceValues(func() (all isolation.Rules, err error) {
		err = all.UnmarshalBinary(encoded)
		isRead.Store(err == nil)
		return all, err
	})
	return filter.Rules{Sum: head.Sum, Allow: head.Allow, Egress: head.Egress, Whole: whole, Some: func(isWanted func(from, to *isolation.Selector) bool) (some isolation.Rules, isAll bool, err error) {
		if isRead.Load() {
			some, err = whole()
			return some, true, err
		}
		err = some.UnmarshalSome(encoded, isWanted)
		return some, false, err
	}}
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
	head := preparedHead{}
	if json.Unmarshal(first, &head) == nil && head.Build == version.Build() && head.Sum == filter.Sum(rules) {
		l.wanted = &wanted{preparedRules(head, rules), head.Levels, head.Text}
	}
}
