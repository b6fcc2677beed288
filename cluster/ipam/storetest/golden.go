// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package storetest

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"
)

// Golden reads a file of the present version into a value, and requires that it is written the same and has all that
// such a file can have: a change of the format needs another version, and another file.
func Golden(t *testing.T, path string, value any) {
	t.Helper()
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(golden, value); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if written, err := json.Marshal(value); err != nil || !bytes.Equal(written, bytes.TrimSpace(golden)) {
		t.Errorf("%s is written as\n%s, %v, want\n%s", path, written, err, golden)
	}
	if field := missing(reflect.ValueOf(value)); field != "" {
		t.Errorf("%s lacks %s", path, field)
	}
}

// missing returns the name of a field that is not set.
func missing(v reflect.Value) string {
	if !v.IsValid() || v.IsZero() {
		return "a value"
	}
	switch v.Kind() {
	case reflect.Pointer:
		return missing(v.Elem())
	case reflect.Slice:
		return missing(v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if field.IsExported() || field.Anonymous {
				if name := missing(v.Field(i)); name != "" {
					return field.Name + "." + name
				}
			}
		}
	default:
	}
	return ""
}
