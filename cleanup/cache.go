// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// cached is the part of libcni's cache file that cleanup needs.
type cached struct {
	ContainerID string          `json:"containerId"`
	Network     string          `json:"networkName"`
	Interface   string          `json:"ifName"`
	Netns       string          `json:"netns"`
	Config      []byte          `json:"config"`
	Result      json.RawMessage `json:"result"`

	// content is the file as it was read.
	content string
}

// scanCache lists libcni's cached results. The conflists in them say where
// plugins keep their files.
func scanCache(dir string) (found scanResult, conflists []json.RawMessage) {
	dir = filepath.Join(dir, "results")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		found.problem(dir, err)
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if strings.HasPrefix(entry.Name(), ".") { // being written
			continue
		}
		c, err := readCached(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			found.problem(path, err)
			continue
		}
		if netns.Exists(c.Netns) {
			found.homes = append(found.homes, home{state.AllocationOf(c.ContainerID), netns.Inode(c.Netns), "namespace " + c.Netns})
		}
		conflists = append(conflists, c.Config)
		found.Objects = append(found.Objects, c.object(path))
	}
	return found, conflists
}

// readCached reads a cached result. Names that would lead out of a directory are
// an error.
func readCached(path string) (c cached, err error) {
	if c.content, err = readSmall(path); err != nil {
		return c, err
	}
	if err := json.Unmarshal([]byte(c.content), &c); err != nil {
		return c, err
	}
	if err := state.ValidateContainerID(c.ContainerID); err != nil {
		return c, err
	}
	if strings.ContainsAny(c.Network+c.Interface, "/\x00") {
		return c, fmt.Errorf("network %q, interface %q: want names, not paths", c.Network, c.Interface)
	}
	return c, nil
}

func (c cached) object(path string) Object {
	return Object{
		Kind: Cache, Owner: ownerOf(c.Network, c.ContainerID, c.Interface),
		Where: path, Addresses: resultAddresses(c.Result), provesDeath: c.lostNamespace(),
		file: &file{path: path, content: c.content},
	}
}

// lostNamespace tells whether the attachment was made in a namespace that does not exist. A
// process that has ended proves nothing: others may be in its namespace.
func (c cached) lostNamespace() bool {
	return c.Netns != "" && !strings.HasPrefix(c.Netns, "/proc/") && !netns.Exists(c.Netns)
}

// resultAddresses returns the addresses of a CNI result of any version.
func resultAddresses(result json.RawMessage) []netip.Addr {
	type ip struct {
		Address string `json:"address"`
		IP      string `json:"ip"`
	}
	var r struct {
		IPs      []ip `json:"ips"`
		IP4, IP6 ip
	}
	if json.Unmarshal(result, &r) != nil {
		return nil
	}
	var list []netip.Addr
	for _, ip := range append(r.IPs, r.IP4, r.IP6) {
		if prefix, err := netip.ParsePrefix(ip.Address + ip.IP); err == nil {
			list = append(list, prefix.Addr())
		}
	}
	return list
}
