// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package signed compares the installed programs with the list that a release has signed. It
// asks gpgv, which apt and dnf trust the same key with, and has no cryptography of its own.
package signed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/allocnet/allocnet/internal/files"
)

// The files of a signed package, below the root directory: the list, whose signature has the
// name with .asc, and the keys of those who may sign it.
const (
	list    = "/usr/share/allocnet/programs.sha256"
	keyring = "/usr/share/keyrings/allocnet.gpg"
)

// What became of a program since its release.
const (
	same    = "ok"
	changed = "changed"
	missing = "missing"
	// unlisted has a path that the list does not have.
	unlisted = "unlisted"
)

// Program is an installed program.
type Program struct {
	Path string `json:"path"`
	// State is ok, changed, missing, or unlisted.
	State string `json:"state"`
}

// OK is whether the program is that of the release.
func (p Program) OK() bool { return p.State == same }

// Verify returns the programs of the list, and self, a path below root, if the list does not have it. It is an error if
// the list is not signed by a key of the keyring, or if anything cannot be read.
func Verify(ctx context.Context, root, self string) ([]Program, error) {
	text, err := files.Read(filepath.Join(root, list))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: a build without a signature has none, want the package of a release", err)
	} else if err != nil {
		return nil, err
	}
	if err := verifySignature(ctx, root, text); err != nil {
		return nil, err
	}
	sums, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", list, err)
	}
	var programs []Program
	for _, s := range sums {
		state, err := s.compare(root)
		if err != nil {
			return nil, err
		}
		programs = append(programs, Program{s.path, state})
		if s.path == self {
			self = ""
		}
	}
	if self != "" {
		programs = append(programs, Program{self, unlisted})
	}
	return programs, nil
}

// verifySignature gives gpgv the list as it was read: the file may be another one by then.
func verifySignature(ctx context.Context, root string, text []byte) error {
	cmd := exec.CommandContext(ctx, "gpgv", "--keyring", filepath.Join(root, keyring), filepath.Join(root, list+".asc"), "-")
	cmd.Stdin = bytes.NewReader(text)
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("gpgv, which verifies the signature of %s, is missing: install gpgv (Debian) or gnupg2: %w", list, err)
	case err != nil:
		return fmt.Errorf("%s has no signature by a key of %s: %w: %s", list, keyring, err, bytes.TrimSpace(out))
	}
	return nil
}

type sum struct{ sha256, path string }

// line is one of sha256sum's, with a path that leads nowhere else.
var line = regexp.MustCompile(`^([0-9a-f]{64})  (/[^\x00]+)$`)

func parse(text []byte) ([]sum, error) {
	var sums []sum
	for _, l := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		m := line.FindStringSubmatch(l)
		if m == nil || filepath.Clean(m[2]) != m[2] {
			return nil, fmt.Errorf("line %d is %q, want a SHA-256 and an absolute path", len(sums)+1, l)
		}
		sums = append(sums, sum{m[1], m[2]})
	}
	return sums, nil
}

func (s sum) compare(root string) (string, error) {
	file, err := files.Open(filepath.Join(root, s.path), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return missing, nil
	} else if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // read only
	digest := sha256.New()
	if _, err := io.Copy(digest, file); err != nil {
		return "", fmt.Errorf("%s: %w", s.path, err)
	}
	if hex.EncodeToString(digest.Sum(nil)) != s.sha256 {
		return changed, nil
	}
	return same, nil
}
