// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sysctl

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mostMounts is how many mounts on procfs are looked at one by one.
const mostMounts = 16

// arePlain is isPlain by listmount(2); ok is false where the kernel does not tell, as before Linux 6.8. It looks at the mounts on
// procfs alone: the table has one for each allocation, and changes with each.
func arePlain() (plain, ok bool) {
	var stat unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, "/proc", 0, unix.STATX_MNT_ID_UNIQUE, &stat); err != nil || stat.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		return false, false
	}
	ids := make([]uint64, mostMounts)
	n, failed := askMounts(unix.SYS_LISTMOUNT, stat.Mnt_id, 0, unsafe.Pointer(&ids[0]), mostMounts)
	if failed || n == mostMounts {
		return false, false
	}
	for _, id := range ids[:n] {
		point, ok := mountPoint(id)
		if !ok {
			return false, false
		}
		if isProtection(point) {
			return false, true
		}
	}
	return true, true
}

// mountPoint returns where a mount is.
func mountPoint(id uint64) (string, bool) {
	// Of struct statmount in linux/mount.h: the mask of what was asked for, the offset of the mount point, and the texts.
	const wantPoint, offset, texts = 0x10, 108, 512
	answer := make([]byte, texts+unix.PathMax)
	if _, failed := askMounts(unix.SYS_STATMOUNT, id, wantPoint, unsafe.Pointer(&answer[0]), len(answer)); failed {
		return "", false
	}
	begin := texts + int(binary.NativeEndian.Uint32(answer[offset:]))
	text, _, ok := bytes.Cut(answer[min(begin, len(answer)):], []byte{0})
	return string(text), ok
}

// askMounts asks the kernel for a mount, or for those on it.
func askMounts(call uintptr, id, param uint64, answer unsafe.Pointer, size int) (n int, failed bool) {
	request := struct {
		size, _   uint32
		id, param uint64
	}{24, 0, id, param}
	r, _, errno := unix.Syscall6(call, uintptr(unsafe.Pointer(&request)), uintptr(answer), uintptr(size), 0, 0, 0)
	return int(r), errno != 0
}
