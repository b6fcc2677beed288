// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package onrecord

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/state"
)

// TestObservedKeys: the record has keys in lower camel case, and those of earlier
// records, which had capitals, are read as well.
func TestObservedKeys(t *testing.T) {
	want := `{"addresses":["10.0.0.2/24"],"dns":{"servers":["192.0.2.53"],"options":["ndots:1"]},"ports":[{"hostPort":80,"containerPort":8080,"protocol":"tcp","hostIP":"192.0.2.1"}]}`
	for name, recorded := range map[string]string{
		"now":     want,
		"earlier": `{"addresses":["10.0.0.2/24"],"dns":{"Servers":["192.0.2.53"],"Searches":null,"Options":["ndots:1"]},"ports":[{"HostPort":80,"ContainerPort":8080,"Protocol":"tcp","HostIP":"192.0.2.1"}]}`,
	} {
		a, err := describeAttachment(state.Attachment{Status: []byte(recorded)})
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(a.Observed)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
