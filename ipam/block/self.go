// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/allocnet/allocnet/internal/regularfile"
	"github.com/allocnet/allocnet/ipam"
)

// readSelf returns who the host is, as far as its own files say. Empty: there is no such file.
func readSelf(dir string) (ipam.Host, error) {
	var h ipam.Host
	for path, field := range map[string]*string{
		filepath.Join(dir, "instance"):    &h.Instance,
		"/etc/machine-id":                 &h.MachineID,
		"/proc/sys/kernel/random/boot_id": &h.Boot,
	} {
		data, err := regularfile.Read(path)
		if err != nil && !os.IsNotExist(err) {
			return h, fmt.Errorf("who this host is: %w", err)
		}
		*field = strings.TrimSpace(string(data))
	}
	return h, nil
}
