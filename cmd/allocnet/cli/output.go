// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf16"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/doctor"
	"github.com/allocnet/allocnet/internal/termtext"
)

// PrintLines prints texts, escaped, each in a line.
func PrintLines(w io.Writer, texts ...string) error {
	var b strings.Builder
	for _, s := range texts {
		b.WriteString(Printable(s) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// PrintFindings prints each finding in two lines.
func PrintFindings(w io.Writer, findings []doctor.Finding) error {
	for _, f := range findings {
		if _, err := fmt.Fprintf(w, "%-7s %s: %s\n        fix: %s\n", strings.ToUpper(string(f.Severity)), Printable(f.Subject), Printable(f.Problem), Printable(f.Fix)); err != nil {
			return err
		}
	}
	if len(findings) == 0 {
		_, err := fmt.Fprintln(w, "no problems found")
		return err
	}
	return nil
}

// PrintJSON prints a value as --json does.
func PrintJSON(w io.Writer, value any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := io.WriteString(w, escapeJSON(text.String()))
	return err
}

// Output prints a value as JSON with --json, else for people.
func (s *Settings) Output(w io.Writer, value any, people func(w io.Writer, t Terminal) error) error {
	if s.JSON {
		return PrintJSON(w, value)
	}
	return people(w, TerminalOf(w))
}

// ErrorText is the text of an error in JSON; empty for none.
func ErrorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// escapeJSON escapes what a terminal could execute, or show as something else: JSON requires it
// only of what comes before the space. Outside of strings there is none.
func escapeJSON(text string) string {
	if strings.IndexFunc(text, hidden) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if !hidden(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			_, _ = fmt.Fprintf(&b, `\u%04x`, unit) // a Builder does not fail
		}
	}
	return b.String()
}

func hidden(r rune) bool { return r != '\n' && termtext.Unprintable(r) }

// Age prints a duration in its largest unit. It is never negative, even if the clock
// was set back.
func Age(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// OrDash returns what a table has for a text, which may be empty.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Printable returns a text in one line, without what a terminal would act on.
func Printable(s string) string { return termtext.Printable(s) }

// defaultColumns is the width of a terminal that does not tell its own.
const defaultColumns = 80

// Terminal is what output is printed on. The zero value is a pipe or a file.
type Terminal struct {
	// Columns is 0 without a terminal.
	Columns int
	Colours bool
}

// TerminalOf returns the terminal that a command writes to, if it is one.
func TerminalOf(w io.Writer) Terminal {
	file, ok := w.(*os.File)
	if !ok || !IsTerminal(file) {
		return Terminal{}
	}
	t := Terminal{Columns: defaultColumns, Colours: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
		t.Columns = int(size.Col)
	}
	return t
}

// IsTerminal tells whether a file is a terminal.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// clear has a terminal show what follows from its first line on.
const clear = "\x1b[H\x1b[2J"
