// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package leases

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/allocnet/allocnet/internal/files"
)

// Lease is who has an address.
type Lease struct {
	// ID is the container ID of the attachment.
	ID string
	// Interface is that of the attachment. Empty: an old version made the lease.
	Interface string
	// Since is when the lease was made.
	Since time.Time
}

// Read returns the lease of an address in the directory of a network. It takes no lock. An address
// without a lease is an fs.ErrNotExist.
func Read(dir, address string) (Lease, error) {
	file, err := files.Open(filepath.Join(dir, address), os.O_RDONLY, 0)
	if err != nil {
		return Lease{}, err
	}
	defer file.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(io.LimitReader(file, mostBytes))
	if err != nil {
		return Lease{}, err
	}
	info, err := file.Stat()
	if err != nil {
		return Lease{}, err
	}
	id, iface, _ := strings.Cut(strings.TrimSpace(string(data)), "\r\n")
	return Lease{ID: id, Interface: iface, Since: info.ModTime()}, nil
}
