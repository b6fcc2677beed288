// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filestore

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/files"
)

// valid returns whether an entry can have the path: those that Nomad's variables may have.
func valid(path string) bool {
	isOther := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_~/", r)
	}
	return path != "" && len(path) <= 128 && !strings.ContainsFunc(path, isOther)
}

// file is the file of an entry. All are in one directory: a path may be the beginning of
// another.
func (s *Store) file(path string) string {
	return filepath.Join(s.dir, strings.ReplaceAll(path, "/", ","))
}

// encode returns an entry's file: a line with its index, and its content.
func encode(content []byte, index uint64) []byte {
	return append(fmt.Appendf(nil, "%d\n", index), content...)
}

// mostBytes of a file are read: a variable of Nomad has at most as much, and a line.
const mostBytes = ipam.MaxContent + 32

// readFile reads an entry's file, or the counter's.
func readFile(path string) (content []byte, index uint64, err error) {
	data, err := files.ReadStart(path, os.O_RDONLY|unix.O_NOFOLLOW, mostBytes+1)
	if err != nil {
		return nil, 0, err
	}
	first, content, isWhole := bytes.Cut(data, []byte("\n"))
	index, err = strconv.ParseUint(string(first), 10, 64)
	if err != nil || !isWhole || index == 0 || len(data) > mostBytes {
		return nil, 0, fmt.Errorf("%s is damaged: want a line with a number of 1 or more, and at most %d bytes; if this host's pools are unused, remove it", path, mostBytes)
	}
	return content, index, nil
}
