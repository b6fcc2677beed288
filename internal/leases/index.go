// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package leases

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

// index tells which leases of a network an owner has, so that not all of them have to be
// read. It is a cache in a file beside the directory, .NETWORK.owners, and right only as long
// as the directory is as it was when the index was written:
//
//   - Under host-local's lock, the writer of an index sets the directory's modification time
//     to one second ago. The kernel sets it to the present whenever an entry is added or
//     removed, so no such change, of whatever process, leaves it as it was. Nor do two writers
//     set the same time. Index and directory have to agree on it, on the directory's inode,
//     and on the time of the inode's last change.
//   - A lease file is never written again, so the content is what it was when the entry was
//     added. What the index finds is verified nevertheless.
//   - The last line of the index has its checksum: a process that is killed, a full disk, or a
//     power cut leaves an index that is not used.
//
// Without an index that agrees, all leases are read. The zero value has no leases.
type index struct {
	// text has a line for each lease: its content and its name, quoted. It begins with an
	// empty line.
	text []byte
	// partial is whether there may be others, so that it must not be written.
	partial bool
}

// minIndexed is the number of leases from which there is an index; fewer are read as quickly.
const minIndexed = 16

func (i *index) find(content string) []string {
	key := append([]byte{'\n'}, strconv.Quote(content)+" "...)
	var names []string
	for rest := i.text; ; {
		_, after, found := bytes.Cut(rest, key)
		if !found {
			return names
		}
		end := bytes.IndexByte(after, '\n')
		if name, err := strconv.Unquote(string(after[:end])); err == nil {
			names = append(names, name)
		}
		rest = after[end:]
	}
}

func leaseLine(name, content string) string {
	return strconv.Quote(content) + " " + strconv.Quote(name) + "\n"
}

func (i *index) add(name, content string) {
	if len(i.text) == 0 {
		i.text = append(i.text, '\n')
	}
	i.text = append(i.text, leaseLine(name, content)...)
}

func (i *index) remove(name, content string) {
	line := "\n" + leaseLine(name, content)
	if at := bytes.Index(i.text, []byte(line)); at >= 0 {
		i.text = slices.Delete(i.text, at+1, at+len(line))
	}
}

// indexPath is beside the directory, because host-local takes every file in it for a lease.
// No network has such a name.
func indexPath(dir string) string {
	return filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".owners")
}

// readIndex returns the index of a directory whose lock is held; nil if there is none
// that agrees with it.
func readIndex(dir string) *index {
	data, err := files.Read(indexPath(dir))
	if err != nil || !bytes.HasSuffix(data, []byte("\n")) {
		return nil
	}
	stamp, err := directoryStamp(dir)
	if err != nil {
		return nil
	}
	end := bytes.LastIndexByte(data[:len(data)-1], '\n') + 1
	text := data[:end]
	if string(data[end:]) != lastLine(stamp, text) {
		return nil
	}
	return &index{text: text}
}

// directoryStamp identifies the directory's present entries.
func directoryStamp(dir string) (string, error) {
	var stat unix.Stat_t
	if err := unix.Stat(dir, &stat); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d %d %d", stat.Ino, stat.Mtim.Nano(), stat.Ctim.Nano()), nil
}

func lastLine(stamp string, text []byte) string {
	return fmt.Sprintf("%s %08x\n", stamp, crc32.ChecksumIEEE(text))
}

// write writes the index of a directory whose lock is held, or removes it if the leases are
// few. If it fails there is none.
func (i *index) write(dir string) {
	path := indexPath(dir)
	_ = os.Remove(path) // most of the time there is none, or it is not right any more
	if i.partial || bytes.Count(i.text, []byte{'\n'}) <= minIndexed {
		return
	}
	stamp, err := setStamp(dir)
	if err != nil {
		return
	}
	if os.WriteFile(path, append(i.text, lastLine(stamp, i.text)...), 0o600) != nil {
		_ = os.Remove(path) // it has no last line
	}
}

// setStamp sets the directory's modification time to one that no later change gives it,
// and returns its stamp.
func setStamp(dir string) (string, error) {
	own := time.Now().Add(-time.Second)
	if err := os.Chtimes(dir, time.Time{}, own); err != nil {
		return "", err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	if !info.ModTime().Equal(own) {
		return "", fmt.Errorf("the file system of %s rounds times", dir)
	}
	return directoryStamp(dir)
}
