// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"encoding"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// firstFormat is that of the first release.
const firstFormat = 3

// TestReleasedFormats: a record that any release wrote is read, without the loss of a
// field. A new format needs a file in testdata, as an attach of that version wrote it.
func TestReleasedFormats(t *testing.T) {
	for version := firstFormat; version <= FormatVersion; version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			written, err := os.ReadFile(fmt.Sprintf("testdata/format-%d.journal", version))
			must(t, err)
			s := open(t)
			l := lock(t, s, "web-1")
			must(t, l.Begin(Allocation{ID: "web-1", Mode: ModeSetup}, nil))
			damage(t, l, func([]byte) []byte { return written })
			r, err := l.Load()
			if err != nil || len(r.Damaged) > 0 || len(r.Attachments) != 2 {
				t.Fatalf("read %d attachments, damaged %v, %v", len(r.Attachments), r.Damaged, err)
			}
			for _, a := range r.Attachments {
				if a.Phase != Attached || len(a.ConfList) == 0 || len(a.Result) == 0 || len(a.PluginDirs) == 0 {
					t.Errorf("%s: %+v", a.Interface, a)
				}
			}
			for data := range strings.Lines(string(written)) {
				requireComplete(t, []byte(data))
			}
		})
	}
}

// TestFormatHasItsKeys: a format has the keys with which it was released. A change of them is a new
// FormatVersion, with files of its own in testdata: a program that does not know a key would drop it,
// or take the line for damaged. Until 0.1.0 is released, those of format 3 may change.
func TestFormatHasItsKeys(t *testing.T) {
	released, err := os.ReadFile(fmt.Sprintf("testdata/format-%d.keys", FormatVersion))
	must(t, err)
	keys := keysOf(reflect.TypeFor[change](), "")
	if diff := cmp.Diff(strings.Fields(string(released)), keys); diff != "" {
		t.Errorf("format %d has other keys than on release (-released +now):\n%s", FormatVersion, diff)
	}
}

// keysOf returns the keys of a type's JSON, with those in which they are. What a type has of itself has the same keys.
func keysOf(t reflect.Type, in string, within ...reflect.Type) (keys []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) || slices.Contains(within, t) {
		return nil
	}
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			name = field.Name
		}
		key := strings.TrimPrefix(in+"."+name, ".")
		keys = append(append(keys, key), keysOf(field.Type, key, append(slices.Clip(within), t)...)...)
	}
	return keys
}

// requireComplete compares a record with what is written of it again.
func requireComplete(t *testing.T, data []byte) {
	t.Helper()
	var old line
	must(t, json.Unmarshal(data, &old))
	c, err := decode(data)
	must(t, err)
	again, err := json.Marshal(c)
	must(t, err)
	var before, after any
	must(t, json.Unmarshal(old.Record, &before))
	must(t, json.Unmarshal(again, &after))
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("a record changes when it is read (-written +read):\n%s", diff)
	}
}
