// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package cache reads and writes libcni's cache, which has the conflist and the result of each attachment: DEL and CHECK get them
// from there, and where a record is lost they are found there.
package cache

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/libcni"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/state"
)

// Dir is the directory of the cache.
type Dir string

// Attachments returns the attachments of the allocation in libcni's cache that have our
// marker: other runtimes use the same cache for the same container.
func (d Dir) Attachments(allocation string) ([]state.Attachment, error) {
	entries, err := read(d.results(), allocation)
	if err != nil {
		return nil, fmt.Errorf("read libcni's cache: %w", err)
	}
	var found []state.Attachment
	for _, e := range entries {
		ours := onrecord.ReadMarker(e.Config).Attachment
		if ours == nil {
			continue
		}
		found = append(found, state.Attachment{
			Network: e.NetworkName, Interface: e.IfName, ContainerID: e.ContainerID,
			Index: ours.Index, Primary: ours.Primary, DependsOn: ours.DependsOn,
			Batch: ours.Batch, Task: ours.Task,
			Phase: state.Attached, ConfList: e.Config, Result: e.Result,
			Args: e.CniArgs, CapabilityArgs: e.CapabilityArgs,
			Created: time.Now().UTC(), Updated: time.Now().UTC(),
		})
	}
	return found, nil
}

// entry is libcni's cache file, version cniCacheV1.
type entry struct {
	Kind           string          `json:"kind"`
	ContainerID    string          `json:"containerId"`
	Config         []byte          `json:"config"`
	IfName         string          `json:"ifName"`
	NetworkName    string          `json:"networkName"`
	NetNS          string          `json:"netns,omitempty"`
	CniArgs        [][2]string     `json:"cniArgs,omitempty"`
	CapabilityArgs map[string]any  `json:"capabilityArgs,omitempty"`
	Result         json.RawMessage `json:"result,omitempty"`
}

// read returns libcni's cached results of an allocation, for the container IDs of
// all its attachments: libcni itself finds one container ID at a time. Like libcni it
// skips a file that cannot be parsed.
func read(dir, allocation string) ([]entry, error) {
	paths, err := cachePaths(dir, allocation)
	if err != nil {
		return nil, err
	}
	var found []entry
	for _, path := range paths {
		data, err := files.ReadNoFollow(path)
		if errors.Is(err, files.ErrNotRegular) {
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		var e entry
		if json.Unmarshal(data, &e) == nil && e.Kind == libcni.CNICacheV1 && state.AllocationOf(e.ContainerID) == allocation {
			found = append(found, e)
		}
	}
	return found, nil
}

// cachePaths returns the files that may have results of an allocation. The directory has those
// of all: only their names are read.
func cachePaths(dir, allocation string) ([]string, error) {
	results, err := os.OpenFile(dir, unix.O_DIRECTORY, 0) // opening a FIFO would wait
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer results.Close() //nolint:errcheck // read only
	names, err := results.Readdirnames(-1)
	var paths []string
	for _, name := range names {
		if strings.Contains(name, "-"+allocation) { // libcni names them NETWORK-CONTAINERID-INTERFACE
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	slices.Sort(paths)
	if errors.Is(err, fs.ErrNotExist) { // it is being removed
		err = nil
	}
	return paths, err
}

func (d Dir) results() string { return filepath.Join(string(d), "results") }

func (d Dir) path(a state.Attachment) string {
	return filepath.Join(d.results(), onrecord.CacheName(a))
}

// Restore writes the recorded result of an attachment if it is lost: CHECK
// and DEL get their prevResult from the cache.
func (d Dir) Restore(a state.Attachment, netns string) error {
	if a.Result == nil {
		return nil
	}
	_, err := os.Lstat(d.path(a))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return d.Write(a, netns)
}

// RecallResults completes attachments with the results that only libcni's cache has, because
// the call that attached them was killed before it recorded them. DEL removes them there
// before what it leaves is committed, so that they have to be recorded first.
func (d Dir) RecallResults(attachments []state.Attachment) {
	for i := range attachments {
		a := &attachments[i]
		if a.Result != nil {
			continue
		}
		if e, err := d.readOwn(*a); err == nil && e.owns(*a) {
			a.Result = e.Result
		}
	}
}

// RequireOwn refuses an attachment whose cache file another attachment has. libcni joins
// network, container ID and interface with '-', so "1-eth0" of allocation web has the
// file of "eth0" of web-1, and its DEL would get the other's result; this is a
// *plan.RequestError. A symbolic link is removed, because libcni would follow it.
func (d Dir) RequireOwn(a state.Attachment) error {
	path := d.path(a)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.Mode().IsRegular() {
		return os.Remove(path)
	}
	if err != nil {
		return err
	}
	e, err := d.readOwn(a)
	if err != nil {
		return err
	}
	if e.ContainerID == "" || e.owns(a) { // without an owner: libcni replaces it
		return nil
	}
	return &plan.RequestError{Field: "interface", Value: a.Interface, Reason: fmt.Sprintf("libcni would keep its result in %s, which has that of interface %s of container ID %s: want another name", path, e.IfName, e.ContainerID)}
}

// readOwn reads the file of an attachment in libcni's cache. What cannot be parsed has no
// owner.
func (d Dir) readOwn(a state.Attachment) (e entry, err error) {
	data, err := files.ReadNoFollow(d.path(a))
	if err == nil && json.Unmarshal(data, &e) != nil {
		e = entry{}
	}
	return e, err
}

// Holds returns the file of an attachment, and whether it is there.
func (d Dir) Holds(a state.Attachment) (path string, holds bool) {
	e, err := d.readOwn(a)
	return d.path(a), err == nil && e.owns(a)
}

// owns tells whether a file in libcni's cache is that of an attachment.
func (e entry) owns(a state.Attachment) bool {
	return e.ContainerID == a.ContainerID && e.IfName == a.Interface && e.NetworkName == a.Network
}

// Write replaces the file of an attachment, which is in a namespace, with its record.
func (d Dir) Write(a state.Attachment, netns string) error {
	data, err := json.Marshal(entry{
		Kind: libcni.CNICacheV1, ContainerID: a.ContainerID,
		Config: a.ConfList, IfName: a.Interface, NetworkName: a.Network,
		NetNS: netns, CniArgs: a.Args,
		CapabilityArgs: a.CapabilityArgs, Result: a.Result,
	})
	if err != nil {
		return err
	}
	path := d.path(a)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	// Not durable: after a power cut the attachment does not exist.
	return files.Replace(path, data, files.Options{})
}
