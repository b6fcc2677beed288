// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package connect

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/atomicfile"
	"github.com/allocnet/allocnet/internal/flock"
	"github.com/allocnet/allocnet/internal/regularfile"
	"github.com/allocnet/allocnet/ipam"
)

// identify returns who this host is, without its node.
func identify(dir string) (ipam.Host, error) {
	instance, err := instance(dir)
	if err != nil {
		return ipam.Host{}, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ipam.Host{}, err
	}
	machine, err := os.ReadFile("/etc/machine-id")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ipam.Host{}, err
	}
	return ipam.Host{Instance: instance, MachineID: strings.TrimSpace(string(machine)), Boot: strings.TrimSpace(string(boot))}, nil
}

// instanceForm is that of the random ID.
var instanceForm = regexp.MustCompile(`^[0-9a-f]{32}$`)

// locking limits the wait for the lock of the directory, which another program may have. It takes
// milliseconds to make the file.
const locking = 2 * time.Second

// instance returns the random ID in the directory, and makes it if it is missing.
func instance(dir string) (string, error) {
	path := filepath.Join(dir, "instance")
	if id, err := readInstance(path); !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	lock, err := os.Open(dir)
	if err != nil {
		return "", err
	}
	defer flock.Close(lock)
	ctx, stop := context.WithTimeoutCause(context.Background(), locking, fmt.Errorf("another process has it for more than %s", locking))
	defer stop()
	if err := flock.Lock(ctx, lock, unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("%w: lock %s: %w", ipam.ErrUnavailable, dir, err)
	}
	if id, err := readInstance(path); !errors.Is(err, fs.ErrNotExist) {
		return id, err // another process has made it
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // it never fails
	text := hex.EncodeToString(id)
	return text, atomicfile.Write(path, []byte(text+"\n"), atomicfile.Options{Durable: true})
}

func readInstance(path string) (string, error) {
	data, err := regularfile.Read(path)
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(data))
	if !instanceForm.MatchString(id) {
		return "", fmt.Errorf("%s: %.40q: want 32 hexadecimal digits; restore the file, or remove it if no allocation on this host has an address of a pool", path, id)
	}
	return id, nil
}
