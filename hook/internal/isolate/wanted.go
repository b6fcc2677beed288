// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolate

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/state"
)

// networkLevel is how the attachments to a network are kept apart.
type networkLevel struct {
	isolation.Level

	Antispoof bool
	NoHost    bool `json:",omitempty"`
}

// isNone tells whether nothing keeps them apart but rules.
func (l networkLevel) isNone() bool { return l.Level == isolation.None && !l.Antispoof }

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
		levels[n.Name] = networkLevel{rules.Level(), rules.Guards(), !rules.ReachedByHost()}
	}
	return levels, nil
}

// keep adds former levels of networks that cannot be read by now, or are gone: their attachments stay as they are.
func (l networkLevels) keep(former networkLevels) {
	for name, level := range former {
		if _, ok := l[name]; !ok {
			l[name] = level
		}
	}
}

// of returns that of an attachment: its network's, or what was recorded when it was attached.
func (l networkLevels) of(a state.Attachment) networkLevel {
	if now, ok := l[a.Network]; ok {
		return now
	}
	if a.Isolation == nil {
		return networkLevel{Level: isolation.None}
	}
	return networkLevel{isolation.Level(a.Isolation.Level), a.Isolation.Antispoof, a.Isolation.NoHost}
}

// wanted is what the host is to keep attachments apart by.
type wanted struct {
	Rules  isolation.Rules
	Levels networkLevels
}

// load returns what is wanted by now. With the error, that the file of rules has mistakes or the networks cannot be read, it is what is in force.
func (h host) load() (w wanted, inForce []byte, err error) {
	if inForce, err = h.store.Isolation().InForce(); err != nil {
		return w, nil, fmt.Errorf("read which isolation is in force: %w", err)
	}
	former := wantedIn(inForce)
	levels, err := levelsNow(h.config)
	if err != nil {
		return former, inForce, err
	}
	levels.keep(former.Levels)
	rules, err := isolation.Load(h.config.IsolationFile)
	if err != nil && inForce != nil {
		rules = former.Rules
	}
	return wanted{rules, levels}, inForce, err
}

// wantedIn returns what is in force.
func wantedIn(inForce []byte) (w wanted) {
	_ = json.Unmarshal(inForce, &w) // it is what encode has made, or nothing
	return w
}

// apart tells whether attachments are kept apart, or rules may limit some.
func (w wanted) apart() bool {
	for _, level := range w.Levels {
		if !level.isNone() {
			return true
		}
	}
	return len(w.Rules.Egress) > 0
}

// encode returns what is recorded of it. Networks that are not kept apart are left out, as most are.
func (w wanted) encode() ([]byte, error) {
	kept := networkLevels{}
	for name, level := range w.Levels {
		if !level.isNone() {
			kept[name] = level
		}
	}
	return json.Marshal(wanted{w.Rules, kept})
}
