// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package networkstatus writes the attachments of an allocation for its tasks:
// network-status.json in the shared directory of a Nomad allocation, in the schema of
// the network plumbing working group (Multi-Network Specification, "Network Attachment
// Status").
package networkstatus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/atomicfile"
	"github.com/allocnet/allocnet/state"
)

// File is the name of the file in the shared directory.
const File = "network-status.json"

// Write writes or replaces the file of an allocation. dataDir is the data directory of
// the Nomad client. The error is fs.ErrNotExist when the client does not have the
// allocation.
func Write(dataDir string, a *hook.Allocation) error {
	data, err := json.MarshalIndent(a.NetworkStatus(), "", "  ")
	if err != nil {
		return err
	}
	shared, err := open(dataDir, a.ID)
	if err != nil {
		return err
	}
	defer shared.Close() //nolint:errcheck // a directory
	return Replace(shared, File, append(data, '\n'))
}

// Replace writes a file of a shared directory with mode 0644, or leaves the old
// content. Tasks can write to the directory: links are not followed, and a directory
// at the name is removed. The caller writes one file at a time.
func Replace(shared *os.Root, name string, data []byte) error {
	info, err := shared.Lstat(name)
	if err == nil && info.IsDir() {
		err = shared.RemoveAll(name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write %s: %w", filepath.Join(shared.Name(), name), err)
	}
	// Not durable: after a power cut the allocation's networks do not exist.
	return atomicfile.WriteIn(shared, name, data, atomicfile.Options{Mode: 0o644})
}

// Remove removes the file of an allocation. A missing file is not an error.
func Remove(dataDir, id string) error {
	shared, err := open(dataDir, id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer shared.Close() //nolint:errcheck // a directory
	// A task may have made a directory of it.
	if err := shared.RemoveAll(File); err != nil {
		return fmt.Errorf("remove %s: %w", filepath.Join(shared.Name(), File), err)
	}
	return nil
}

// open opens the shared directory of an allocation. Tasks cannot write to the
// directories above it.
func open(dataDir, id string) (*os.Root, error) {
	if err := state.ValidateID(id); err != nil {
		return nil, err
	}
	return os.OpenRoot(filepath.Join(dataDir, "alloc", id, "alloc"))
}
