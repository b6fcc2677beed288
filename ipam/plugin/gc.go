// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/regularfile"
	"github.com/allocnet/allocnet/ipam"
)

// collectedAfter is the least age of a lease that GC frees. The runtime lists the valid
// attachments of one network. Another that uses the pool may just be adding one, whose address
// is in no namespace yet.
const collectedAfter = time.Minute

// GC frees the addresses of attachments that are not valid any more. Those that a network
// namespace has are kept: a lease does not tell its network, and the runtime does not list the
// attachments of other networks that use the pool.
func (p *Plugin) GC(ctx context.Context, c Call) error {
	opened, err := p.open(c)
	if err != nil {
		return err
	}
	conf, err := c.config()
	if err != nil {
		return err
	}
	var valid []ipam.Owner
	for _, a := range conf.ValidAttachments {
		valid = append(valid, ipam.Owner{ContainerID: a.ContainerID, Interface: a.IfName})
	}
	leases, err := readLeases(filepath.Join(opened.conf.DataDir, opened.conf.Pool))
	if err != nil {
		return cniError(err)
	}
	used, err := netns.Addresses()
	if err != nil {
		return cniError(err)
	}
	for _, l := range leases {
		if used[l.address] != "" || time.Since(l.made) < collectedAfter {
			valid = append(valid, l.owner)
		}
	}
	return cniError(opened.pool.GC(ctx, valid))
}

// lease is an address that an attachment of this host has.
type lease struct {
	address netip.Addr
	owner   ipam.Owner
	made    time.Time
}

// readLeases reads the leases in a directory, which may be missing.
func readLeases(dir string) ([]lease, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []lease
	for _, entry := range entries {
		address, err := netip.ParseAddr(entry.Name())
		if err != nil { // the lock, and notes
			continue
		}
		path := filepath.Join(dir, entry.Name())
		content, err := regularfile.Read(path)
		if errors.Is(err, fs.ErrNotExist) { // freed since it was listed
			continue
		}
		if err != nil {
			return nil, err
		}
		info, err := os.Lstat(path)
		if err != nil {
			continue // freed since it was read
		}
		id, iface, _ := strings.Cut(string(content), "\r\n")
		all = append(all, lease{address, ipam.Owner{ContainerID: strings.TrimSpace(id), Interface: strings.TrimSpace(iface)}, info.ModTime()})
	}
	return all, nil
}
