// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package hostid is who a host is by its own files: the random ID in the state directory of
// its pools, the machine's ID and the kernel's boot ID.
package hostid

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/files"
)

// Identity is who the host is. Host has no node.
type Identity struct {
	ipam.Host
	// Born: the instance was made by this machine in this boot. A copy of its disk is another
	// machine, or in another boot.
	Born bool
}

// fileName is that of the instance: 32 hexadecimal digits, and on lines of their own the boot
// and the machine that made it.
const fileName = "instance"

// locking limits the wait for the lock of the directory, which another program may have. It takes
// milliseconds to make the file.
const locking = 2 * time.Second

// Read returns who the host is. What has no file is empty.
func Read(dir string) (Identity, error) {
	id, err := readHost()
	if err != nil {
		return Identity{}, err
	}
	return id, files.UnlessMissing(id.readInstance(dir))
}

// Make is Read for those who need an instance: it makes the missing one.
func Make(dir string) (Identity, error) {
	id, err := readHost()
	if err != nil {
		return id, err
	}
	if err := id.readInstance(dir); !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return id, err
	}
	ctx, stop := context.WithTimeoutCause(context.Background(), locking, fmt.Errorf("another process has it for more than %s", locking))
	defer stop()
	unlock, err := files.LockDir(ctx, dir, unix.LOCK_EX)
	if err != nil {
		return id, errdefs.As(errdefs.Unavailable, fmt.Errorf("%w: %w", ipam.ErrUnavailable, err))
	}
	defer unlock()
	if err := id.readInstance(dir); !errors.Is(err, fs.ErrNotExist) {
		return id, err // another process has made it
	}
	return id, id.makeInstance(dir)
}

// ofBoot is what was read once: it does not change while this process runs.
var ofBoot atomic.Pointer[Identity]

func readHost() (id Identity, err error) {
	if known := ofBoot.Load(); known != nil {
		return *known, nil
	}
	for path, field := range map[string]*string{
		"/etc/machine-id":                 &id.MachineID,
		"/proc/sys/kernel/random/boot_id": &id.Boot,
	} {
		data, err := files.IfExists(files.Read(path))
		if err != nil {
			return id, fmt.Errorf("who this host is: %w", err)
		}
		*field = strings.TrimSpace(string(data))
	}
	if known := id; known.MachineID != "" && known.Boot != "" {
		ofBoot.Store(&known)
	}
	return id, nil
}

func (id *Identity) readInstance(dir string) error {
	path := filepath.Join(dir, fileName)
	data, err := files.Read(path)
	if err != nil {
		return err
	}
	instance, birth, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
	if !ipam.IsInstance(instance) {
		return fmt.Errorf("%s: %.40q: want 32 hexadecimal digits; restore the file, or remove it if no allocation on this host has an address of a pool", path, instance)
	}
	id.Instance, id.Born = instance, id.MachineID != "" && birth == id.birth()
	return nil
}

// birth is what the file says of an instance that is made now.
func (id *Identity) birth() string { return id.Boot + "\n" + id.MachineID }

func (id *Identity) makeInstance(dir string) error {
	id.Instance, id.Born = ipam.RandomID(), id.MachineID != ""
	data := []byte(id.Instance + "\n" + id.birth() + "\n")
	return files.Replace(filepath.Join(dir, fileName), data, files.Options{Durable: true})
}
