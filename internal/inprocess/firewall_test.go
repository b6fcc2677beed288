// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"strings"
	"testing"
)

// TestUnknownPolicy: DEL refuses it, as the reference plugin does, even if it has nothing to remove.
func TestUnknownPolicy(t *testing.T) {
	for policy, want := range map[string]string{"": "", "open": "", "same-bridge": "", "isolated": "", "closed": `unknown ingress policy: "closed"`} {
		err := delFirewall(&call{version: "1.0.0", changes: &Changes{}, config: []byte(`{"cniVersion": "1.0.0", "name": "n", "ingressPolicy": "` + policy + `"}`)})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got the error %v, want %q", policy, err, want)
		}
	}
}
