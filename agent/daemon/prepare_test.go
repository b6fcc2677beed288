// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/agent"
	"github.com/allocnet/allocnet/agent/config"
)

// TestPrepareSocket: the socket is open for the group; a missing one is left to the
// agent, and another file is not touched.
func TestPrepareSocket(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no iptables
	dir := t.TempDir()
	socket, file := filepath.Join(dir, "agent.sock"), filepath.Join(t.TempDir(), "file")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := errors.Join(os.Chmod(socket, 0o600), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	own := uint32(os.Getgid())
	for path, word := range map[string]string{socket: "", filepath.Join(dir, "none"): "", file: "another kind"} {
		load := func() (config.Config, error) {
			return config.Config{LogLevel: "info", Socket: config.Socket{Path: path, Access: agent.Access{Owner: uint32(os.Getuid()), Group: own}}}, nil
		}
		if err := Prepare(load, io.Discard); (err != nil) != (word != "") || err != nil && !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v, want %q", path, err, word)
		}
	}
	want := fs.FileMode(0o600)
	if own != 0 { // 0 is no group
		want = 0o660
	}
	for path, mode := range map[string]fs.FileMode{socket: want, file: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v, want mode %#o", path, info, err, mode)
		}
	}
}

// TestPrepareTables: modules are loaded for iptables-legacy only.
func TestPrepareTables(t *testing.T) {
	load := func() (config.Config, error) { return config.Config{LogLevel: "info"}, nil }
	for version, want := range map[string]string{
		"iptables v1.8.9 (nf_tables)": "",
		"iptables v1.8.9 (legacy)":    "-aq ip_tables ip6_tables\n",
		"iptables v1.6.1":             "-aq ip_tables ip6_tables\n",
	} {
		dir := t.TempDir()
		t.Setenv("PATH", dir)
		program(t, dir+"/iptables", "echo '"+version+"'")
		program(t, dir+"/modprobe", `echo "$@" >`+dir+"/loaded")
		if err := Prepare(load, io.Discard); err != nil {
			t.Errorf("%s: %v", version, err)
		}
		if loaded, _ := os.ReadFile(dir + "/loaded"); string(loaded) != want {
			t.Errorf("%s: loaded %q, want %q", version, loaded, want)
		}
	}
}

// program writes a shell script.
func program(t *testing.T, path, script string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}
