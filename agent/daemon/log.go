// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"cmp"
	"fmt"
	"io"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/internal/errdefs"
)

// newLogger returns the agent's log as text, as JSON, or for the journal, which has
// its own time and expects the level as a prefix (sd-daemon(3)).
func newLogger(c config.Config, stderr io.Writer) (hclog.Logger, error) {
	level := hclog.LevelFromString(c.LogLevel)
	if level == hclog.NoLevel {
		return nil, errdefs.New(errdefs.Refused, fmt.Sprintf("log level %q: want trace, debug, info, warn, error or off", c.LogLevel))
	}
	options := &hclog.LoggerOptions{Name: "allocnet", Level: level, Output: stderr}
	format := "text"
	if toJournal, err := journal.StderrIsJournalStream(); err == nil && toJournal {
		format = "journal"
	}
	switch cmp.Or(c.LogFormat, format) {
	case "json":
		options.JSONFormat = true
	case "journal":
		options.DisableTime = true
		options.Output = hclog.NewLeveledWriter(prefixed{stderr, "<6>"}, map[hclog.Level]io.Writer{
			hclog.Trace: prefixed{stderr, "<7>"}, hclog.Debug: prefixed{stderr, "<7>"},
			hclog.Warn: prefixed{stderr, "<4>"}, hclog.Error: prefixed{stderr, "<3>"},
		})
	}
	return hclog.New(options), nil
}

// prefixed writes each message with a prefix, in one call.
type prefixed struct {
	io.Writer
	prefix string
}

func (p prefixed) Write(data []byte) (int, error) {
	if _, err := p.Writer.Write(append([]byte(p.prefix), data...)); err != nil {
		return 0, err
	}
	return len(data), nil
}
