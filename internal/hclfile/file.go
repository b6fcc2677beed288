// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package hclfile reads configurations in HCL, with errors that say file, line and column.
package hclfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// Error has all errors of the files.
type Error struct{ Diagnostics hcl.Diagnostics }

// Error has a line for each error, as file:line,column: summary; detail.
func (e *Error) Error() string {
	errs := make([]error, len(e.Diagnostics))
	for i, d := range e.Diagnostics {
		errs[i] = d
	}
	return errors.Join(errs...).Error()
}

// Kind is that of package errdefs.
func (*Error) Kind() errdefs.Kind { return errdefs.Refused }

// Load reads a file, or the .hcl files of a directory in lexical order as one file. A missing
// path is an error. The error is an *Error unless a file cannot be read.
func Load(path string) (hcl.Body, error) {
	files, err := filesAt(path)
	if err != nil {
		return nil, err
	}
	return parse(files)
}

// LoadFile reads one file.
func LoadFile(path string) (hcl.Body, error) { return parse([]string{path}) }

// Parse reads the text of one file.
func Parse(path string, text []byte) (hcl.Body, error) {
	file, faults := hclparse.NewParser().ParseHCL(text, path)
	if faults.HasErrors() {
		return nil, &Error{faults}
	}
	return file.Body, nil
}

func filesAt(path string) ([]string, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errdefs.As(errdefs.Refused, fmt.Errorf("configuration: %w: want a .hcl file, or a directory of them", err))
	case err != nil:
		return nil, fmt.Errorf("configuration: %w", err)
	case !info.IsDir():
		return []string{path}, nil
	}
	files, err := filepath.Glob(filepath.Join(path, "*.hcl"))
	slices.Sort(files)
	return files, err
}

func parse(files []string) (hcl.Body, error) {
	parser := hclparse.NewParser()
	var parsed []*hcl.File
	var faults hcl.Diagnostics
	for _, path := range files {
		file, more := parser.ParseHCLFile(path)
		faults = append(faults, more...)
		parsed = append(parsed, file)
	}
	if faults.HasErrors() {
		return nil, &Error{faults}
	}
	return hcl.MergeFiles(parsed), nil
}
