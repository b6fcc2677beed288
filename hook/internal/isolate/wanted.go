// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/state"
)

// networkLevel is how the attachments to a network are kept apart.
type networkLevel struct {
	isolation.Level

	Antispoof bool
	NoHost    bool `json:",omitempty"`
	// Inside is whether those without an end on the host are kept apart in their namespaces.
	Inside bool `json:",omitempty"`
}

// isNone tells whether nothing keeps them apart but rules.
func (l networkLevel) isNone() bool { return l.Level == isolation.None && !l.Antispoof && !l.Inside }

// networkLevels are those of the networks that can be attached, by name.
type networkLevels map[string]networkLevel

// levelsNow returns those that the configuration has by now.
func levelsNow(c *config.Config) (networkLevels, error) {
	catalog, err := c.Catalog()
	if errors.Is(err, cniconf.ErrNoDir) {
		return networkLevels{}, nil
	}
	if err != nil {
		return nil, err
	}
	levels := networkLevels{}
	for _, n := range catalog.Networks {
		rules, err := policy.Of(n)
		if err != nil {
			continue // what is in force stays
		}
		levels[n.Name] = networkLevel{rules.Level(), rules.Guards(), !rules.ReachedByHost(), rules.Inside()}
	}
	return levels, nil
}

// keep adds former levels of networks that cannot be read by now, or are gone: their attachments stay as they are. Attachments that are kept apart inside
// are so by another level, too, until there is none.
func (l networkLevels) keep(former networkLevels) {
	for name, level := range former {
		now, ok := l[name]
		switch {
		case !ok:
			l[name] = level
		case level.Inside && !now.isNone():
			now.Inside = true
			l[name] = now
		}
	}
}

// of returns that of an attachment: its network's, or the recorded one.
func (l networkLevels) of(network string, recorded networkLevel) networkLevel {
	if now, ok := l[network]; ok {
		return now
	}
	return recorded
}

// recordedLevel is the level with which an attachment was attached.
func recordedLevel(a state.Attachment) networkLevel {
	if a.Isolation == nil {
		return networkLevel{Level: isolation.None}
	}
	return networkLevel{isolation.Level(a.Isolation.Level), a.Isolation.Antispoof, a.Isolation.NoHost, a.Isolation.Inside}
}

// kept are those of networks that are kept apart: most are not.
func (l networkLevels) kept() networkLevels {
	kept := networkLevels{}
	for name, level := range l {
		if !level.isNone() {
			kept[name] = level
		}
	}
	return kept
}

// anyInside tells whether there are some of attachments that are kept apart in their namespaces.
func (l networkLevels) anyInside() bool {
	for _, level := range l {
		if level.Inside {
			return true
		}
	}
	return false
}

// wanted is what the host is to keep attachments apart by.
type wanted struct {
	Rules  filter.Rules
	Levels networkLevels

	// text is the sum of the text that has the rules; empty: unknown.
	text string
}

// load returns what is wanted by now, and what is in force; nil: nothing. With the error, that the file of rules has mistakes or the networks cannot be
// read, the first is what is in force.
func (h host) load() (w wanted, inForce *wanted, err error) {
	if inForce, err = h.inForce(); err != nil {
		return w, nil, fmt.Errorf("read which isolation is in force: %w", err)
	}
	former := wanted{}
	if inForce != nil {
		former = *inForce
	}
	levels, err := levelsNow(h.config)
	if err != nil {
		return former, inForce, err
	}
	levels.keep(former.Levels)
	rules, text, err := h.rulesNow(inForce)
	if err != nil && inForce != nil {
		rules, text = former.Rules, former.text
	}
	return wanted{rules, levels, text}, inForce, err
}

// rulesNow returns the rules of the file, with the sum of its text: those in force if they are of this text. A file that is as it was when another process
// read that is not read again.
func (h host) rulesNow(inForce *wanted) (rules filter.Rules, sum string, err error) {
	before := files.Identity(h.config.IsolationFile)
	if before != "" && inForce != nil && inForce.text != "" && h.store.Isolation().TextSum(before) == inForce.text {
		return inForce.Rules, inForce.text, nil
	}
	text, err := isolation.Read(h.config.IsolationFile)
	if err != nil {
		return filter.RulesOf(isolation.Rules{File: h.config.IsolationFile}), "", err
	}
	if inForce != nil && inForce.text == text.Sum {
		if before != "" && before == files.Identity(h.config.IsolationFile) {
			_ = h.store.Isolation().SetTextSum(before, text.Sum) // without it the next one reads the text
		}
		return inForce.Rules, text.Sum, nil
	}
	all, err := text.Rules()
	return filter.RulesOf(all), text.Sum, err
}

// apart tells whether attachments are kept apart, or rules may limit some.
func (w wanted) apart() bool { return len(w.Levels.kept()) > 0 || w.Rules.Egress > 0 }

// isSame tells whether both keep attachments apart in the same way.
func (w wanted) isSame(other wanted) bool {
	if w.text != "" && other.text != "" {
		return w.text == other.text && maps.Equal(w.Levels.kept(), other.Levels.kept())
	}
	one, err := w.encode()
	if err != nil {
		return false
	}
	second, err := other.encode()
	return err == nil && bytes.Equal(one, second)
}

// leaving is what is on record while namespaces still have something of networks that are not kept apart inside any more: it is not the same.
func (w wanted) leaving(former *wanted) wanted {
	if former == nil {
		return w
	}
	levels := maps.Clone(w.Levels)
	for name, before := range former.Levels {
		if now := levels[name]; before.Inside && now.isNone() {
			levels[name] = networkLevel{Level: isolation.None, Inside: true}
		}
	}
	w.Levels = levels
	return w
}

// encoded is what is recorded of it, so that each version of allocnet can read it.
type encoded struct {
	Rules  isolation.Rules
	Levels networkLevels
}

// encode returns what is recorded of it.
func (w wanted) encode() ([]byte, error) {
	rules, err := w.Rules.All()
	if err != nil {
		return nil, err
	}
	return json.Marshal(encoded{rules, w.Levels.kept()})
}
