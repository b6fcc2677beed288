// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"os"
	"strings"
)

const acceptedFile = "tools/mutants/survivors.txt"

// readAccepted returns the mutants that may survive, with the reason: a line for each, and an indented one below.
func readAccepted() (map[string]string, error) {
	data, err := os.ReadFile(acceptedFile)
	if err != nil {
		return nil, err
	}
	accepted, last := map[string]string{}, ""
	for number, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		reason, isReason := strings.CutPrefix(line, "\t")
		switch _, twice := accepted[line]; {
		case isReason == (last == "") || line == "" || twice:
			return nil, fmt.Errorf("%s:%d: want a mutant once, and below it a tab and the reason", acceptedFile, number+1)
		case isReason:
			accepted[last], last = reason, ""
		default:
			last = line
		}
	}
	return accepted, nil
}
