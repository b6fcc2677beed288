// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/cluster/rest"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/errdefs"
)

// CheckPaths reports each file and directory of the configuration that this user cannot
// read, or that does not exist, the address of Nomad, and a main network that no directory
// has: the agent would start, and fail later. The agent itself does not require them at its
// start, because they may be made after it.
func CheckPaths(c config.Config) error {
	var faults pathFaults
	if c.Hook != hook.NoOp {
		for _, dir := range cniconf.Present(c.ConfDirs) {
			faults.dir("conf_dir", dir)
		}
		faults.anyDir("plugin_dirs", c.PluginDirs)
		faults.cni(c.CNI)
	}
	if n := c.Nomad; n != nil {
		faults.file("nomad: token_file", n.TokenFile)
		faults.file("nomad: ca_file", n.CAFile)
		faults.file("nomad: cert_file", n.CertFile)
		faults.file("nomad: key_file", n.KeyFile)
		if _, err := rest.New(rest.Config{Address: n.Address}); err != nil {
			faults = append(faults, err)
		}
	}
	if m := c.Multi; m != nil {
		faults.file("multi: source", m.Source)
		if m.Path != "" {
			faults.dir("multi: path", filepath.Dir(m.Path))
		}
		if m.Primary != "" && len(faults) == 0 {
			faults.network("multi: primary", m.Primary, c.ConfDirs)
		}
	}
	if m := c.Metrics; m != nil {
		faults.file("metrics: web_config", m.WebConfig)
		if err := checkWebConfig(m.WebConfig); err != nil && len(faults) == 0 {
			faults = append(faults, err)
		}
	}
	return errdefs.As(errdefs.Refused, errors.Join(faults...))
}

// pathFaults has an error for each path that cannot be used.
type pathFaults []error

func (f *pathFaults) cni(c config.CNI) {
	root := cmp.Or(c.Chroot, "/")
	if c.Chroot != "" {
		f.dir("cni: chroot", root)
	}
	if c.Plugin != "" {
		f.file("cni: plugin", filepath.Join(root, c.Plugin))
	}
}

// file checks a file that can be read and is not empty. Without a path it does nothing.
func (f *pathFaults) file(key, path string) {
	if path == "" {
		return
	}
	file, err := os.Open(path)
	if err != nil {
		f.add(key, path, err)
		return
	}
	defer file.Close() //nolint:errcheck // only read
	info, err := file.Stat()
	switch {
	case err != nil:
		f.add(key, path, err)
	case !info.Mode().IsRegular():
		f.add(key, path, errors.New("is no regular file"))
	case info.Size() == 0:
		f.add(key, path, errors.New("is empty"))
	}
}

// network checks that the directories have a network.
func (f *pathFaults) network(key, name string, dirs []string) {
	catalog, err := cniconf.Load(dirs...)
	if err == nil {
		_, err = catalog.Lookup(name)
	}
	if err != nil {
		*f = append(*f, fmt.Errorf("%s: %w", key, err))
	}
}

func (f *pathFaults) dir(key, path string) {
	if err := isDir(path); err != nil {
		f.add(key, path, err)
	}
}

// anyDir checks that at least one of the directories exists. None is configured for the
// default.
func (f *pathFaults) anyDir(key string, paths []string) {
	if len(paths) > 0 && !slices.ContainsFunc(paths, func(path string) bool { return isDir(path) == nil }) {
		f.add(key, paths[0], errors.New("does not exist, and no other of the directories does"))
	}
}

func isDir(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = errors.New("is no directory")
	}
	return err
}

func (f *pathFaults) add(key, path string, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("does not exist: create it, or correct the path")
	}
	*f = append(*f, fmt.Errorf("%s: %s %w", key, path, err))
}
