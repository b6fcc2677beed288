// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"encoding/json"
	"errors"
)

// presentFile says, in a directory that a boot empties, which records are the last that this host
// wrote in this boot. A state directory that was restored from a backup has others.
const presentFile = "present.json"

// present is what a host wrote last.
type present struct {
	Boot       string `json:"boot"`
	Generation string `json:"generation"`
}

// errRestored is a state directory that is older than what this host knew.
var errRestored = errors.New("the state directory was restored from a backup meanwhile")

// isPresent tells whether records are the last that this host wrote. Those of the release that
// wrote no generation are, until this one has written some.
func (l *Leases) isPresent(r *records) bool {
	p := present{}
	data, err := l.run.read(presentFile)
	if err != nil || data != nil && json.Unmarshal(data, &p) != nil {
		return false
	}
	return p.Generation == r.Generation && (p.Generation == "" || p.Boot == r.Boot)
}

// writePresent makes records the last ones before they are written: those of before, which a process
// that is killed in between leaves, or a backup has, are verified again.
func (l *Leases) writePresent(r *records) error {
	return writeJSON(l.run, presentFile, present{r.Boot, r.Generation})
}

// doubt forgets what records say of this boot: they may be older than it.
func (r *records) doubt() {
	r.doubted, r.Verified = true, moment{}
	r.close()
}
