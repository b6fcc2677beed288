// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/template"
	"time"

	"github.com/spf13/cobra"
)

// view is what a command shows, in each of its forms.
type view struct {
	// json is what --json prints and a template gets.
	json any
	// names are what --quiet prints.
	names []string
	// table prints the view for people.
	table func(w io.Writer, t terminal) error
}

// display are the flags that select a form of a view.
type display struct {
	quiet    bool
	template string
	// watch is the interval; 0 is once.
	watch time.Duration
}

// register adds the flags. The names are what quiet prints.
func (d *display) register(cmd *cobra.Command, names string) {
	flags := cmd.Flags()
	flags.BoolVarP(&d.quiet, "quiet", "q", false, "print only "+names)
	flags.StringVarP(&d.template, "template", "t", "", "print by a template of Go, which gets what --json prints")
	flags.DurationVar(&d.watch, "watch", 0, "print again when the output changes, examined at this interval")
	flags.Lookup("watch").NoOptDefVal = "2s"
}

// run prints what look returns, with --watch until look fails or the context ends.
func (d *display) run(cmd *cobra.Command, asJSON bool, look func(context.Context) (view, error)) error {
	if d.watch < 0 {
		return usage(fmt.Errorf("--watch %s: want more than 0", d.watch))
	}
	if d.quiet && d.template != "" {
		return usage(errors.New("--quiet and --template: want one of them"))
	}
	parsed, err := d.parse()
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	t := terminalOf(out)
	show := func(w io.Writer) error {
		v, failed := look(cmd.Context())
		if v.table == nil {
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
func watch(ctx context.Context, w io.Writer, t terminal, tick <-chan time.Time, show func(io.Writer) error) error {
	var before []byte
	for {
		var now bytes.Buffer
		err := show(&now)
		if !bytes.Equal(now.Bytes(), before) {
			before = now.Bytes()
			if t.columns > 0 {
				before = append([]byte(clear), before...)
			}
			if _, failed := w.Write(before); failed != nil {
				return failed
			}
			before = now.Bytes()
		}
		var exit *exitError
		if err != nil && (!errors.As(err, &exit) || exit.err != nil) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick:
		}
	}
}

// parse returns the template, or nil.
func (d *display) parse() (*template.Template, error) {
	if d.template == "" {
		return nil, nil
	}
	parsed, err := template.New("--template").Parse(d.template)
	if err != nil {
		return nil, usage(err)
	}
	return parsed, nil
}

func (d *display) print(w io.Writer, t terminal, v view, parsed *template.Template, asJSON bool) error {
	switch {
	case parsed != nil:
		return printTemplate(w, parsed, v.json)
	case d.quiet:
		return printLines(w, v.names...)
	case asJSON:
		return printJSON(w, v.json)
	}
	return v.table(w, t)
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
		return usage(err)
	}
	if !bytes.HasSuffix(out.Bytes(), []byte("\n")) {
		out.WriteByte('\n')
	}
	_, err = w.Write(out.Bytes())
	return err
}

// printApart prints things with an empty line between two.
func printApart[T any](w io.Writer, all []T, print func(T) error) error {
	for i, one := range all {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := print(one); err != nil {
			return err
		}
	}
	return nil
}

// printLines prints texts, escaped, each in a line.
func printLines(w io.Writer, texts ...string) error {
	var b strings.Builder
	for _, s := range texts {
		b.WriteString(printable(s) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
