// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// plainLogger writes warnings and errors as the command line writes its own: a person
// reads them when they happen, and needs neither time nor level.
func plainLogger(stderr io.Writer, level hclog.Level) hclog.Logger {
	log := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: level, Output: io.Discard})
	log.RegisterSink(plainSink{stderr, level})
	return log
}

type plainSink struct {
	stderr io.Writer
	level  hclog.Level
}

// Accept writes "allocnet: warning: MESSAGE (KEY VALUE, ...): ERROR".
func (s plainSink) Accept(_ string, level hclog.Level, message string, args ...any) {
	if level < s.level {
		return
	}
	var details []string
	failed := ""
	for i := 0; i+1 < len(args); i += 2 {
		if args[i] == "error" {
			failed = fmt.Sprintf(": %v", args[i+1])
			continue
		}
		details = append(details, fmt.Sprintf("%v %v", args[i], args[i+1]))
	}
	if len(details) > 0 {
		message += " (" + strings.Join(details, ", ") + ")"
	}
	if level == hclog.Warn {
		message = "warning: " + message
	}
	PrintError(s.stderr, message+failed)
}
