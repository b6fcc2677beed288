// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package files has what a program needs for files that it shares with others, of which some are not trusted:
//
//   - Replace replaces a file in one step: a reader sees the old content or the new content, and a writer that is killed
//     or runs out of disk space leaves the old content;
//   - Open opens a file where another program may have put a pipe;
//   - Lock locks an open file against other processes (flock(2)), and KeyLocks against other goroutines of this one;
//   - CheckPrivate refuses directories that other users can change.
//
// Libraries for the first and the third open files by path: these are in directories that are open already (os.Root), and
// a lock belongs to the file that is read through the same descriptor.
package files
