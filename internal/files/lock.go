// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package files

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Lock locks a file, how being unix.LOCK_EX or unix.LOCK_SH. When ctx ends first the
// error is its cause; a free lock is taken even if ctx has ended. It polls, because a
// waiting flock(2) cannot be cancelled.
func Lock(ctx context.Context, file *os.File, how int) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 25*time.Millisecond) {
		err := unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
		if err == nil || !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// CloseLocked releases an exclusive lock and closes the file, to which nothing was written.
// Closing alone is not enough: a child that another goroutine has just forked has the
// file open, too, until it executes its program.
func CloseLocked(file *os.File) {
	_ = unix.Flock(int(file.Fd()), unix.LOCK_UN) // closing it does the rest
	_ = file.Close()                             // never written
}
