// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"errors"
	"fmt"

	"github.com/allocnet/allocnet/internal/files"
)

// presentFile says, in a directory that a boot empties, which records are the last that this host
// wrote in this boot. A state directory that was restored from a backup has others.
const presentFile, presentVersion = "present.json", 1

type present struct {
	Version    int    `json:"version"`
	Boot       string `json:"boot"`
	Generation string `json:"generation"`
}

// errRestored is a state directory that is older than what this host knew.
var errRestored = errors.New("the state directory was restored from a backup meanwhile")

// isPresent tells whether records are the last that this host wrote. Those of the release that
// wrote no generation are, until this one has written some.
func (l *Leases) isPresent(r *records) (bool, error) {
	p := present{}
	err := readJSON(l.run, presentFile, presentVersion, &p)
	if errors.Is(err, files.ErrLater) {
		return false, fmt.Errorf("%s: %w: no address is given out in this boot", l.run.pathOf(presentFile), err)
	}
	return err == nil && p.Generation == r.Generation && (p.Generation == "" || p.Boot == r.Boot), nil
}

// writePresent makes records the last ones before they are written: those of before, which a process
// that is killed in between leaves, or a backup has, are verified again.
func (l *Leases) writePresent(r *records) error {
	return writeJSON(l.run, presentFile, present{presentVersion, r.Boot, r.Generation})
}
