// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

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
	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/state"
)

// cached returns the attachments of the allocation in libcni's cache that have our
// marker: other runtimes use the same cache for the same container.
func (o *operation) cached() ([]state.Attachment, error) {
	entries, err := readCache(filepath.Join(o.config.CacheDir, "results"), o.record.Allocation.ID)
	if err != nil {
		return nil, fmt.Errorf("read libcni's cache: %w", err)
	}
	var found []state.Attachment
	for _, entry := range entries {
		ours := onrecord.ReadMarker(entry.Config).Attachment
		if ours == nil {
			continue
		}
		found = append(found, state.Attachment{
			Network: entry.NetworkName, Interface: entry.IfName, ContainerID: entry.ContainerID,
			Index: ours.Index, Primary: ours.Primary, DependsOn: ours.DependsOn,
			Batch: ours.Batch, Task: ours.Task,
			Phase: state.Attached, ConfList: entry.Config, Result: entry.Result,
			Args: entry.CniArgs, CapabilityArgs: entry.CapabilityArgs,
			Created: time.Now().UTC(), Updated: time.Now().UTC(),
		})
	}
	return found, nil
}

// cacheEntry is libcni's cache file, version cniCacheV1.
type cacheEntry struct {
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

// readCache returns libcni's cached results of an allocation, for the container IDs of
// all its attachments: libcni itself finds one container ID at a time. Like libcni it
// skips a file that cannot be parsed.
func readCache(dir, allocation string) ([]cacheEntry, error) {
	paths, err := cachePaths(dir, allocation)
	if err != nil {
		return nil, err
	}
	var found []cacheEntry
	for _, path := range paths {
		data, err := files.ReadNoFollow(path)
		if errors.Is(err, files.ErrNotRegular) {
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		var entry cacheEntry
		if json.Unmarshal(data, &entry) == nil && entry.Kind == libcni.CNICacheV1 && state.AllocationOf(entry.ContainerID) == allocation {
			found = append(found, entry)
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

func (o *operation) cachePath(a state.Attachment) string {
	return filepath.Join(o.config.CacheDir, "results", onrecord.CacheName(a))
}

// restoreCache writes the recorded result to libcni's cache if it is lost there: CHECK
// and DEL get their prevResult from the cache.
func (o *operation) restoreCache(a state.Attachment) error {
	if a.Result == nil {
		return nil
	}
	_, err := os.Lstat(o.cachePath(a))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return o.writeCache(a)
}

// recallResults completes attachments with the results that only libcni's cache has, because
// the call that attached them was killed before it recorded them. DEL removes them there
// before what it leaves is committed, so that they have to be recorded first.
func (o *operation) recallResults(attachments []state.Attachment) {
	for i := range attachments {
		a := &attachments[i]
		if a.Result != nil {
			continue
		}
		if entry, err := o.readOwnCache(*a); err == nil && entry.owns(*a) {
			a.Result = entry.Result
		}
	}
}

// ownCache refuses an attachment whose cache file another attachment has. libcni joins
// network, container ID and interface with '-', so "1-eth0" of allocation web has the
// file of "eth0" of web-1, and its DEL would get the other's result; this is a
// *RequestError. A symbolic link is removed, because libcni would follow it.
func (o *operation) ownCache(a state.Attachment) error {
	path := o.cachePath(a)
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
	entry, err := o.readOwnCache(a)
	if err != nil {
		return err
	}
	if entry.ContainerID == "" || entry.owns(a) { // without an owner: libcni replaces it
		return nil
	}
	return &RequestError{Field: "interface", Value: a.Interface, Reason: fmt.Sprintf("libcni would keep its result in %s, which has that of interface %s of container ID %s: want another name", path, entry.IfName, entry.ContainerID)}
}

// readOwnCache reads the file of an attachment in libcni's cache. What cannot be parsed has no
// owner.
func (o *operation) readOwnCache(a state.Attachment) (entry cacheEntry, err error) {
	data, err := files.ReadNoFollow(o.cachePath(a))
	if err == nil && json.Unmarshal(data, &entry) != nil {
		entry = cacheEntry{}
	}
	return entry, err
}

// owns tells whether a file in libcni's cache is that of an attachment.
func (e cacheEntry) owns(a state.Attachment) bool {
	return e.ContainerID == a.ContainerID && e.IfName == a.Interface && e.NetworkName == a.Network
}

// writeCache replaces the attachment's file in libcni's cache with the record.
func (o *operation) writeCache(a state.Attachment) error {
	data, err := json.Marshal(cacheEntry{
		Kind: libcni.CNICacheV1, ContainerID: a.ContainerID,
		Config: a.ConfList, IfName: a.Interface, NetworkName: a.Network,
		NetNS: o.record.Allocation.Netns, CniArgs: a.Args,
		CapabilityArgs: a.CapabilityArgs, Result: a.Result,
	})
	if err != nil {
		return err
	}
	path := o.cachePath(a)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	// Not durable: after a power cut the attachment does not exist.
	return files.Replace(path, data, files.Options{})
}
