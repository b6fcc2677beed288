// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"testing"

	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
)

// TestDigest: digests are on record, so a version that makes others would refuse to set up again what is set up.
func TestDigest(t *testing.T) {
	r := Request{ID: "a", Netns: "/run/netns/a", Primary: &selection.Element{Name: "web"}, Ports: []portmap.Port{{Label: "http", HostPort: 80}}, Operator: true}
	const want = "6ff6dffd2754ab2347823f328ffd86d58e592c4bbb4d2efba4621703e82c7676"
	if got, err := r.Digest(); got != want || err != nil {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}
