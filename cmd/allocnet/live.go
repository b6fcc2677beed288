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
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/state"
)

type liveList struct {
	text  string
	stdin io.Reader
	// ids are what was read.
	ids []string
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
		return nil, fmt.Errorf("%s has no IDs; if no allocation is live, leave out --live", l.text)
	}
	for _, id := range ids {
		if err := state.ValidateID(id); err != nil {
			return nil, err
		}
	}
	l.ids = ids
	return ids, nil
}

// noteUnrecognised tells of IDs that name nothing on this host, as those of another one or a column of another table. With none
// that does, it is an error where something would be removed.
func (l *liveList) noteUnrecognised(cmd *cobra.Command, s *cli.Settings, engine *hook.Engine) error {
	if len(l.ids) == 0 {
		return nil
	}
	unknown, err := engine.Collector().Unrecognised(cmd.Context(), l.ids)
	if err != nil {
		return fmt.Errorf("%s %s: %w", l.Name(), l.text, err)
	}
	log, err := s.Logger(cmd.ErrOrStderr())
	if err == nil && len(unknown) > 0 {
		log.Warn("IDs of --live are not known on this host", "ids", strings.Join(unknown, " "))
	}
	return err
}

func (l *liveList) readFile(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(l.stdin)
	}
	return os.ReadFile(path)
}
