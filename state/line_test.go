// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestIncompleteLines: a line without the mode of the allocation, or the kind of the
// batch, is damage, and is never written.
func TestIncompleteLines(t *testing.T) {
	batch := Batch{Kind: BatchSetup}
	for name, test := range map[string]struct {
		change change
		want   string
	}{
		"nothing":           {change{}, "says nothing"},
		"allocation":        {change{Allocation: &Allocation{ID: "a", Mode: ModeExtend}}, ""},
		"allocation, lost":  {change{Allocation: &Allocation{ID: "a", Mode: ModeUnknown}}, ""},
		"no mode":           {change{Allocation: &Allocation{ID: "a"}}, `mode ""`},
		"a mode of its own": {change{Allocation: &Allocation{ID: "a", Mode: "other"}}, `mode "other"`},
		"attachment":        {change{Attachment: &Attachment{Interface: "net1", Batch: batch}}, ""},
		"no batch":          {change{Attachment: &Attachment{Interface: "net1"}}, `kind ""`},
		"a kind of its own": {change{Attachment: &Attachment{Interface: "net1", Batch: Batch{Kind: "other"}}}, `kind "other"`},
		"no interface":      {change{Attachment: &Attachment{Batch: batch}}, `interface name ""`},
		"attachments":       {change{Attachments: []Attachment{{Interface: "net1", Batch: batch}, {Interface: "net2", Batch: batch}}}, ""},
		"one without batch": {change{Attachments: []Attachment{{Interface: "net1", Batch: batch}, {Interface: "net2"}}}, `kind ""`},
		"one without name":  {change{Attachments: []Attachment{{Interface: "net1", Batch: batch}, {Batch: batch}}}, `interface name ""`},
		"forgotten":         {change{Forgotten: "net1"}, ""},
		"deleting":          {change{Deleting: []deletion{{Interface: "net1"}, {"net2", Batch{Kind: BatchDetach, ID: "net2"}}}}, ""},
		"deleting, unnamed": {change{Deleting: []deletion{{Interface: "net1"}, {}}}, `interface name ""`},
		"deleting, a kind":  {change{Deleting: []deletion{{"net1", Batch{Kind: "other"}}}}, `kind "other"`},
		"a path for a name": {change{Attachment: &Attachment{Interface: "a/b", Batch: batch}}, `interface name "a/b"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := encode([]change{test.change})
			expect(t, "encode", err, test.want)
			record, err := json.Marshal(test.change)
			must(t, err)
			data, err := json.Marshal(line{Version: FormatVersion, SHA256: checksum(FormatVersion, record), Record: record})
			must(t, err)
			_, err = decode(data)
			expect(t, "decode", err, test.want)
		})
	}
}

// TestSplit: a line in any form has the parts that JSON says.
func TestSplit(t *testing.T) {
	const record = `{"forgotten":"net1","x":{"a":1,"record":{"b":"}"}}}`
	sum := checksum(FormatVersion, []byte(record))
	written, err := json.Marshal(line{Version: FormatVersion, SHA256: sum, Record: json.RawMessage(record)})
	must(t, err)
	for _, text := range []string{
		string(written), string(first(written)), string(written) + "}", string(written[1:]), strings.Replace(string(written), sum, sum[1:], 1),
		strings.ReplaceAll(string(written), ":", ": "), strings.Replace(string(written), `"record"`, `"Record"`, 1), strings.TrimSuffix(string(written), "}") + `,"record":{}}`,
		fmt.Sprintf(`{"record":%s,"sha256":%q,"version":%d}`, record, sum, FormatVersion), `{"version":1`, "",
	} {
		var want line
		failed := json.Unmarshal([]byte(text), &want)
		got, _, err := split([]byte(text))
		if fmt.Sprint(err) != fmt.Sprint(failed) || err == nil && (got.Size != want.Size || got.Version != want.Version || got.SHA256 != want.SHA256 || string(got.Record) != string(want.Record)) {
			t.Errorf("%s: %+v, %v, want %+v, %v", text, got, err, want, failed)
		}
	}
}

// expect holds an error to a part of its text; empty: no error.
func expect(t *testing.T, call string, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: %v, want %q", call, err, want)
	}
}
