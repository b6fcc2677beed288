// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/state"
)

// shortID is the number of characters of an ID of Nomad that tables show, as Nomad's do.
const shortID = 8

// resolveToRemove returns the ID of the allocation that a command removes. A prefix is
// only one of Nomad's IDs: a script that detaches web-1 twice must not detach web-10.
// An ID without a record is no error, because removing is repeatable.
func resolveToRemove(s *cli.Settings, stderr io.Writer, engine *hook.Engine, id string) (string, error) {
	found, err := engine.Resolve(id)
	candidates := []string{found}
	var ambiguous *state.AmbiguousIDError
	switch {
	case errors.As(err, &ambiguous):
		candidates = ambiguous.IDs
	case errors.Is(err, state.ErrNotFound):
		return id, nil
	case err != nil || found == id:
		return id, err
	}
	if len(id) < shortID || !slices.ContainsFunc(candidates, state.IsNomadID) {
		note(s, stderr, fmt.Sprintf("%s is taken as a complete ID; there are %s", id, strings.Join(candidates, ", ")))
		return id, nil
	}
	if ambiguous != nil {
		return "", err
	}
	note(s, stderr, fmt.Sprintf("%s is allocation %s", id, found))
	return found, nil
}

// note tells a person at a terminal something that a program does not need.
func note(s *cli.Settings, stderr io.Writer, text string) {
	if file, ok := stderr.(*os.File); ok && cli.IsTerminal(file) && !s.JSON {
		cli.PrintError(stderr, text)
	}
}

// shortIDs returns what tables show of Nomad's IDs: the first characters, so many that
// no other ID begins with them. Other IDs are complete: commands that remove want them.
func shortIDs(ids []string) map[string]string {
	sorted := slices.Sorted(slices.Values(ids))
	short := map[string]string{}
	for i, id := range sorted {
		if !state.IsNomadID(id) {
			continue
		}
		n := shortID
		for _, neighbour := range slices.Concat(sorted[max(0, i-1):i], sorted[i+1:min(i+2, len(sorted))]) {
			n = max(n, commonPrefix(id, neighbour)+1)
		}
		short[id] = id[:min(n, len(id))]
	}
	return short
}

func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
