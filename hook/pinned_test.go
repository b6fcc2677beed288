// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
)

// TestKilledBeforePin: a Setup that was killed before it pinned its namespace owns
// none. GC keeps a namespace that another program made at that path since.
func TestKilledBeforePin(t *testing.T) {
	i := install(t)
	k := killables["Setup"]
	effects := k.effects(t, i)
	pinned := slices.Index(effects, "pin namespace")
	if pinned < 0 {
		t.Fatalf("Setup pins no namespace: %v", effects)
	}
	for at, effect := range effects[:pinned+1] {
		w := k.world(t, i)
		w.killAt(at, false)
		_ = k.call(w) // a dead process returns nothing
		w.bury()
		path := w.namespaces.create(filepath.Join(w.config.NetnsDir, "own"))
		if err := collect(w); err != nil {
			t.Error(err)
		}
		if !w.namespaces.Exists(path) {
			t.Errorf("killed before %q: GC removed the namespace of another program", effect)
		}
		if ids := recorded(t, w.Engine); len(ids) > 0 {
			t.Errorf("killed before %q: on record are %v", effect, ids)
		}
	}
}

// TestPathTakenMeanwhile: what another program made at the path after it was checked is
// not removed when Setup fails, even if it is no namespace yet.
func TestPathTakenMeanwhile(t *testing.T) {
	m := chained(t)
	m.namespaces.fail = func(op, path string) error {
		switch op {
		case "Mount":
			return fmt.Errorf("%w: %s", netns.ErrExists, path)
		case "Remove":
			t.Errorf("%s is removed", path)
		}
		return nil
	}
	if _, err := m.Setup(t.Context(), chainedRequest); !errors.Is(err, netns.ErrExists) {
		t.Errorf("got %v, want ErrExists", err)
	}
	if ids := recorded(t, m.Engine); len(ids) > 0 {
		t.Errorf("on record are %v", ids)
	}
}
