// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/state"
)

// liveList is the flag with the live allocations.
type liveList struct {
	text  string
	stdin io.Reader
}

func (l *liveList) String() string { return l.text }

// Type is the name of the value in the help text.
func (l *liveList) Type() string { return "IDS" }

// Set takes the value; read reports whether it can be read.
func (l *liveList) Set(text string) error {
	if text == "" {
		return fmt.Errorf("is empty: want IDs separated by ',', @FILE, or @- for standard input")
	}
	l.text = text
	return nil
}

// Name is the name of the list in reasons.
func (l *liveList) Name() string { return "--live" }

// sources are none when the flag is not given.
func (l *liveList) sources(cmd *cobra.Command) []cleanup.Source {
	if l.text == "" {
		return nil
	}
	l.stdin = cmd.InOrStdin()
	return []cleanup.Source{l}
}

// read returns the IDs. An empty list is an error, because a program that failed to
// write the list leaves one, too.
func (l *liveList) read() ([]string, error) {
	text := l.text
	if path, ok := strings.CutPrefix(text, "@"); ok {
		data, err := l.readFile(path)
		if err != nil {
			return nil, err
		}
		text = string(data)
	}
	ids := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) })
	if len(ids) == 0 {
		return nil, fmt.Errorf("%s has no IDs; if no allocation is live, name one that does not exist", l.text)
	}
	for _, id := range ids {
		if err := state.ValidateID(id); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

func (l *liveList) readFile(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(l.stdin)
	}
	return os.ReadFile(path)
}
