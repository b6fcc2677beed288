// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/template"
	"time"

	"github.com/spf13/cobra"
)

// View is what a command shows, in each of its forms.
type View struct {
	// JSON is what --json prints and a template gets.
	JSON any
	// Names are what --quiet prints.
	Names []string
	// Table prints the view for people.
	Table func(w io.Writer, t Terminal) error
}

// Display are the flags that select a form of a view.
type Display struct {
	Quiet    bool
	Template string
	// watch is the interval; 0 is once.
	watch time.Duration
}

// Register adds the flags. The names are what quiet prints.
func (d *Display) Register(cmd *cobra.Command, names string) {
	flags := cmd.Flags()
	flags.BoolVarP(&d.Quiet, "quiet", "q", false, "print only "+names)
	flags.StringVarP(&d.Template, "template", "t", "", "print by a template of Go, which gets what --json prints")
	flags.DurationVar(&d.watch, "watch", 0, "print again when the output changes, examined at this interval")
	flags.Lookup("watch").NoOptDefVal = "2s"
}

// Show prints what look returns, with --watch until look fails or the context ends.
func (d *Display) Show(cmd *cobra.Command, asJSON bool, look func(context.Context) (View, error)) error {
	if d.watch < 0 {
		return Usage(fmt.Errorf("--watch %s: want more than 0", d.watch))
	}
	if d.Quiet && d.Template != "" {
		return Usage(errors.New("--quiet and --template: want one of them"))
	}
	parsed, err := d.parse()
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	t := TerminalOf(out)
	show := func(w io.Writer) error {
		v, failed := look(cmd.Context())
		if v.Table == nil {
			return failed
		}
		return errors.Join(d.print(w, t, v, parsed, asJSON), failed)
	}
	if d.watch == 0 {
		return show(out)
	}
	ticker := time.NewTicker(d.watch)
	defer ticker.Stop()
	return watch(cmd.Context(), out, t, ticker.C, show)
}

// watch shows at once and at each tick, and writes what differs from before. A command
// that fails by its exit code alone has shown what is wrong, which may change.
func watch(ctx context.Context, w io.Writer, t Terminal, tick <-chan time.Time, show func(io.Writer) error) error {
	var before []byte
	for {
		var now bytes.Buffer
		err := show(&now)
		if !bytes.Equal(now.Bytes(), before) {
			before = now.Bytes()
			if t.Columns > 0 {
				before = append([]byte(clear), before...)
			}
			if _, failed := w.Write(before); failed != nil {
				return failed
			}
			before = now.Bytes()
		}
		var exit *ExitError
		if err != nil && (!errors.As(err, &exit) || exit.Err != nil) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick:
		}
	}
}

func (d *Display) parse() (*template.Template, error) {
	if d.Template == "" {
		return nil, nil
	}
	parsed, err := template.New("--template").Parse(d.Template)
	if err != nil {
		return nil, Usage(err)
	}
	return parsed, nil
}

func (d *Display) print(w io.Writer, t Terminal, v View, parsed *template.Template, asJSON bool) error {
	switch {
	case parsed != nil:
		return printTemplate(w, parsed, v.JSON)
	case d.Quiet:
		return PrintLines(w, v.Names...)
	case asJSON:
		return PrintJSON(w, v.JSON)
	}
	return v.Table(w, t)
}

// printTemplate gives a template the keys of the JSON.
func printTemplate(w io.Writer, parsed *template.Template, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber() // a float64 would print 1e+06
	var keys any
	if err := decoder.Decode(&keys); err != nil {
		return err
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, keys); err != nil {
		return Usage(err)
	}
	if !bytes.HasSuffix(out.Bytes(), []byte("\n")) {
		out.WriteByte('\n')
	}
	_, err = w.Write(out.Bytes())
	return err
}
