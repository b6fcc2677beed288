// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/files"
)

// history is what has become of the addresses of a block: 8 bytes for each in a file, by its
// offset in the block, little endian:
//
//	0         never used
//	positive  freed at that time, in nanoseconds since 1970
//	inUse     in use
//	negative  another host was seen to use it: not to be given out until that time, negated
//
// What the file does not have was never used. It is not synced: after a power cut nothing on
// the host uses an address.
type history struct {
	block   ipam.Block
	entries []int64
	// file is nil if there is none to read, and it is not to be made.
	file *os.File
}

// inUse is the entry of an address that has a lease, or is about to.
const inUse = math.MaxInt64

// maxQuarantine is how long an address that another host uses is not given out, and the most
// that an entry may say.
const maxQuarantine = time.Hour

// openHistory opens the history of a block, and makes it if it is missing.
func openHistory(dir string, b ipam.Block) (*history, error) {
	h, err := openFile(dir, b, os.O_RDWR|os.O_CREATE)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		return openFile(dir, b, os.O_RDWR|os.O_CREATE)
	}
	return h, err
}

// readHistory opens the history of a block. If it is missing, no address was ever used.
func readHistory(dir string, b ipam.Block) (*history, error) {
	h, err := openFile(dir, b, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return &history{block: b, entries: make([]int64, size(b))}, nil
	}
	return h, err
}

func openFile(dir string, b ipam.Block, flags int) (*history, error) {
	if bits := b.Addr().BitLen() - b.Bits(); bits > maxBits {
		return nil, fmt.Errorf("%w: block %s: want a prefix of at least /%d", ipam.ErrInvalid, b, b.Addr().BitLen()-maxBits)
	}
	file, err := files.Open(filepath.Join(dir, ipam.BlockName(b)), flags, 0o600)
	if err != nil {
		return nil, err
	}
	h := &history{block: b, file: file}
	if err := h.read(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return h, nil
}

// maxBits of an address are not of its block's prefix in any pool. A damaged record may have less
// of a prefix.
const maxBits = 16

func size(b ipam.Block) int { return 1 << (b.Addr().BitLen() - b.Bits()) }

func (h *history) read() error {
	h.entries = make([]int64, size(h.block))
	data := make([]byte, 8*len(h.entries))
	n, err := io.ReadFull(h.file, data)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	for i := range n / 8 {
		h.entries[i] = int64(binary.LittleEndian.Uint64(data[8*i:]))
	}
	return nil
}

func (h *history) set(offset int, entry int64) error {
	if h.entries[offset] == entry {
		return nil
	}
	data := binary.LittleEndian.AppendUint64(nil, uint64(entry))
	if _, err := h.file.WriteAt(data, int64(8*offset)); err != nil {
		return err
	}
	h.entries[offset] = entry
	return nil
}

// close closes the file. Errors of writes were reported by them.
func (h *history) close() {
	if h.file != nil {
		_ = h.file.Close()
	}
}

// normalize corrects what the clock, or another program, has made wrong: a time in the future
// counts as now, and an address in use without a lease is freed now.
func (h *history) normalize(now time.Time, leased func(offset int) bool) error {
	for offset, entry := range h.entries {
		want := entry
		switch {
		case entry != inUse:
			want = min(max(entry, -now.Add(maxQuarantine).UnixNano()), now.UnixNano())
		case leased != nil && !leased(offset):
			want = now.UnixNano()
		}
		if err := h.set(offset, want); err != nil {
			return err
		}
	}
	return nil
}

// order is the smaller the longer an address was not used.
func order(entry int64) int64 { return max(entry, -entry) }

// ready returns from when an address may be given out. It is the zero time if it was never
// used, and false if it is in use.
func (h *history) ready(offset int, cooldown time.Duration) (time.Time, bool) {
	switch entry := h.entries[offset]; {
	case entry == inUse:
		return time.Time{}, false
	case entry == 0:
		return time.Time{}, true
	case entry < 0:
		return time.Unix(0, -entry), true
	default:
		return time.Unix(0, entry).Add(cooldown), true
	}
}
