// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"errors"
	"net/netip"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

// TestRecordIsNoPipe: pipes in the place of a record, of the lock and of what is remembered are
// refused at once.
func TestRecordIsNoPipe(t *testing.T) {
	dir, address := t.TempDir(), netip.MustParseAddr("10.0.0.5")
	for _, name := range []string{recordName(address), "lock", memoryName} {
		if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := directory(dir)
	if _, err := d.read(address); !errors.Is(err, files.ErrNotRegular) {
		t.Errorf("read: %v", err)
	}
	if _, err := d.replace(t.Context(), address, nil, nil); !errors.Is(err, files.ErrNotRegular) {
		t.Errorf("replace: %v", err)
	}
	if m := d.remembered(); m != nil {
		t.Errorf("remembered: %+v", m)
	}
}
