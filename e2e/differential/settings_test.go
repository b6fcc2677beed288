// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"bytes"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// settingNames are the settings of a namespace that are not those of a link: of links, the kernel
// lists them with the link.
var settingNames = sync.OnceValue(func() []string {
	var names []string
	for _, dir := range []string{"ipv4", "ipv6", "core", "ipv4/conf/all", "ipv4/conf/default", "ipv6/conf/all", "ipv6/conf/default"} {
		entries, _ := os.ReadDir("/proc/sys/net/" + dir) // there is no directory without IPv6
		for _, entry := range entries {
			if name := "net/" + dir + "/" + entry.Name(); !entry.IsDir() && readSetting(name) != nil {
				names = append(names, name)
			}
		}
	}
	return names
})

// settings returns the settings of this namespace.
func settings(prefix string) []string {
	names := settingNames()
	lines := make([]string, len(names))
	for i, name := range names {
		lines[i] = prefix + "sysctl " + name + "=" + string(bytes.TrimSpace(readSetting(name)))
	}
	return lines
}

// readSetting returns nil for one that cannot be read. Hundreds are read for each step, which
// package os would take the most of its time for.
func readSetting(name string) []byte {
	fd, err := unix.Open("/proc/sys/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var value [4096]byte
	n, err := unix.Read(fd, value[:])
	if err != nil {
		return nil
	}
	return value[:n]
}
