// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package networkstatus writes the attachments of an allocation for its tasks, to the
// shared directory of a Nomad allocation: network-status.json in the schema of the
// network plumbing working group (Multi-Network Specification, "Network Attachment
// Status"), and network.env with the same as variables.
package networkstatus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/state"
)

const (
	// File is the name of the JSON file in the shared directory.
	File = "network-status.json"
	// EnvFile is the name of the file with variables in the shared directory.
	EnvFile = "network.env"
	// HostsFile is the name of the file with the names of others, which the agent writes, in the shared directory.
	HostsFile = "network.hosts"
)

// SharedDir returns the shared directory of an allocation. allocDir is the Nomad
// client's alloc_dir. An ID that is no container ID is an error.
func SharedDir(allocDir, id string) (string, error) {
	if err := state.ValidateID(id); err != nil {
		return "", err
	}
	return filepath.Join(allocDir, id, "alloc"), nil
}

// Contents returns those of the files with the attachments of an allocation, by name.
func Contents(a *hook.Allocation) (map[string][]byte, error) {
	data, err := json.MarshalIndent(a.NetworkStatus(), "", "  ")
	if err != nil {
		return nil, err
	}
	return map[string][]byte{File: append(data, '\n'), EnvFile: environment(a)}, nil
}

// Write writes or replaces both files in the shared directory of an allocation. The
// error is fs.ErrNotExist when the directory does not exist. After a failure each file
// has its old or its new content.
func Write(sharedDir string, a *hook.Allocation) error {
	contents, err := Contents(a)
	if err != nil {
		return err
	}
	shared, err := os.OpenRoot(sharedDir)
	if err != nil {
		return err
	}
	defer shared.Close() //nolint:errcheck // a directory
	return errors.Join(Replace(shared, File, contents[File]), Replace(shared, EnvFile, contents[EnvFile]))
}

// Replace writes a file of a shared directory with mode 0644, or leaves the old
// content. Tasks can write to the directory: links are not followed, and a directory
// at the name gets another one. The caller writes one file at a time.
func Replace(shared *os.Root, name string, data []byte) error {
	info, err := shared.Lstat(name)
	if err == nil && info.IsDir() {
		err = files.Clear(shared, name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write %s: %w", filepath.Join(shared.Name(), name), err)
	}
	// Not durable: after a power cut the allocation's networks do not exist.
	return files.ReplaceIn(shared, name, data, files.Options{Mode: 0o644})
}

// Update is Replace where the file is there, and fails with fs.ErrNotExist where it is not: what has attached the allocation writes it
// first, and removes it, at any time. The caller, of which one process runs on a host, updates one file at a time.
func Update(shared *os.Root, name string, data []byte) error {
	return files.ReplaceIn(shared, name, data, files.Options{Mode: 0o644, Existing: true})
}

// Remove removes all files. A missing file or directory is not an error.
func Remove(sharedDir string) error {
	shared, err := os.OpenRoot(sharedDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer shared.Close() //nolint:errcheck // a directory
	return errors.Join(remove(shared, File), remove(shared, EnvFile), remove(shared, HostsFile))
}

// remove removes a file. What a task made of it stays under another name, until the allocation's directory goes.
func remove(shared *os.Root, name string) error {
	if err := files.ClearFile(shared, name); err != nil {
		return fmt.Errorf("remove %s: %w", filepath.Join(shared.Name(), name), err)
	}
	return nil
}
