// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Position returns where an error of encoding/json is in a text, from 1; 0 for one without a place.
func Position(data []byte, err error) (line, column int) {
	var syntax *json.SyntaxError
	var typed *json.UnmarshalTypeError
	offset := int64(len(data))
	switch {
	case errors.As(err, &syntax):
		offset = min(offset, syntax.Offset)
	case errors.As(err, &typed):
		offset = min(offset, typed.Offset)
	case !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF):
		return 0, 0
	}
	before := data[:offset]
	return bytes.Count(before, []byte("\n")) + 1, max(1, len(before)-(bytes.LastIndexByte(before, '\n')+1))
}

// Reason says an error of encoding/json in terms of JSON: that a value has another type than what is wanted, or
// what is wrong with the text.
func Reason(err error) string {
	var typed *json.UnmarshalTypeError
	switch {
	case errors.As(err, &typed):
		return fmt.Sprintf("is a JSON %s, want %s", typed.Value, typeName(typed.Type))
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), err.Error() == "unexpected end of JSON input":
		return "invalid JSON: the text ends before it is complete: a bracket, a brace or a quote is missing"
	}
	return "invalid JSON: " + strings.TrimPrefix(err.Error(), "json: ")
}

func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.Slice:
		return "array"
	case reflect.Bool:
		return "true or false"
	}
	if strings.HasPrefix(t.Kind().String(), "int") || strings.HasPrefix(t.Kind().String(), "uint") {
		return "number"
	}
	return t.Kind().String()
}

// Located returns an error about a text, with its place, and what would be right if it is one of encoding/json. The
// column is told of a text that begins a line.
func (t Text) Located(err error) error {
	line, column := Position(t.Data, err)
	if line == 0 {
		return fmt.Errorf("%s: %w", t.Path, err)
	}
	reason := Reason(err)
	if typed, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && typed.Field != "" {
		reason = typed.Field + " " + reason
	}
	place := fmt.Sprintf("%s:%d", t.Path, t.Line+line-1)
	if !t.IsPart {
		place += fmt.Sprintf(":%d", column)
	}
	return fmt.Errorf("%s: %s", place, reason)
}
