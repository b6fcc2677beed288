// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/selection"
)

// TestSharedNames: every split of the word that network and container ID make is another attachment, and is refused while the
// first one is on record. Others are not.
func TestSharedNames(t *testing.T) {
	m := newMemory(t, nil)
	for _, name := range []string{"v", "v1", "v11", "v115", "w"} {
		m.network(t, name, `{"type": "bridge", "bridge": "b0"}`)
	}
	attach := func(id, network string) error {
		_, err := m.Setup(t.Context(), Request{ID: id, Primary: &selection.Element{Name: network, Interface: "eth0"}})
		return err
	}
	if err := attach("156", "v1"); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		id, network string
		refused     bool
	}{
		{"1156", "v", true}, {"56", "v11", true}, {"6", "v115", true},
		{"156", "v1", false}, {"1156", "w", false}, {"57", "v11", false}, {"5", "v11", false},
	} {
		err := attach(test.id, test.network)
		if refused := errdefs.Of(err) == errdefs.Refused && strings.Contains(err.Error(), `network "v1" of allocation 156`); refused != test.refused || !refused && err != nil {
			t.Errorf("%s of %s: %v, want it to be refused: %v", test.network, test.id, err, test.refused)
		}
	}
	if err := m.Teardown(t.Context(), "156"); err != nil {
		t.Fatal(err)
	}
	if err := attach("56", "v11"); err != nil {
		t.Errorf("after the teardown: %v", err)
	}
}
