// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/cniconf"
)

func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "agent.sock")
	first, err := Listen(path, Access{})
	if err != nil {
		t.Fatal(err)
	}
	if got := first.Addr().String(); got != path {
		t.Errorf("the address is %s", got)
	}
	for file, want := range map[string]os.FileMode{filepath.Dir(path): 0o700, path: 0o600} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want mode %o", file, info.Mode(), err, want)
		}
	}
	if _, err := Listen(path, Access{}); !errors.Is(err, ErrRunning) {
		t.Errorf("a second agent: %v", err)
	}
	_ = first.(*socket).UnixListener.Close() // as after kill -9: the file stays
	second, err := Listen(path, Access{})
	if err != nil {
		t.Fatalf("over a stale socket: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Dir(path) + "/*"); left != nil {
		t.Errorf("left: %v", left)
	}
}

func TestListenRefuses(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/open/other", "")
	if err := os.Chmod(dir+"/open", 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/closed/agent.sock", "text")
	write(t, dir+"/file", "")
	for path, word := range map[string]string{
		"run/agent.sock":           "absolute",
		dir + "/open/agent.sock":   "mode 0755",
		dir + "/closed/agent.sock": "file of another kind",
		dir + "/file/agent.sock":   "not a directory",
	} {
		if _, err := Listen(path, Access{}); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v, want %q", path, err, word)
		}
	}
	if data, _ := os.ReadFile(dir + "/closed/agent.sock"); string(data) != "text" {
		t.Error("a file was replaced")
	}
}

func TestAccess(t *testing.T) {
	own := uint32(os.Geteuid())
	for name, test := range map[string]struct {
		access Access
		peer   peer
		want   bool
	}{
		"root":         {Access{}, peer{uid: 0}, true},
		"own user":     {Access{}, peer{uid: own}, true},
		"other":        {Access{}, peer{uid: own + 12345, gid: 0}, false},
		"owner":        {Access{Owner: own + 12345}, peer{uid: own + 12345}, true},
		"group":        {Access{Group: 777}, peer{uid: own + 12345, gid: 777}, true},
		"other group":  {Access{Group: 777}, peer{uid: own + 12345, gid: 778}, false},
		"unknown user": {Access{Group: 777}, peer{uid: 4294967294}, false},
	} {
		if got := test.access.allows(test.peer); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestPools(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"10.0.0.2", "10.0.0.3", "fd00::5", "last_reserved_ip.0", "lock"} {
		write(t, dir+"/a/"+name, "")
	}
	for ipam, want := range map[string][]pool{
		`{"type": "host-local", "subnet": "10.0.0.0/24", "dataDir": "` + dir + `"}`:                                 {{"ipv4", 253, 2}},
		`{"type": "host-local", "ranges": [[{"subnet": "10.0.0.0/24"}], [{"subnet": "fd00::/112"}]]}`:               {{"ipv4", 253, 0}, {"ipv6", 65534, 0}},
		`{"type": "host-local", "subnet": "10.0.0.0/24", "rangeStart": "10.0.0.10", "rangeEnd": "10.0.0.19"}`:       {{"ipv4", 10, 0}},
		`{"type": "host-local", "subnet": "10.0.0.0/30", "gateway": "10.0.0.2"}`:                                    {{"ipv4", 1, 0}},
		`{"type": "host-local", "subnet": "10.0.0.0/24", "rangeStart": "10.0.0.9", "rangeEnd": "10.0.0.1"}`:         nil,
		`{"type": "host-local", "ranges": [[{"subnet": "10.0.0.0/30"}, {"subnet": "10.1.0.0/30"}]], "dataDir": ""}`: {{"ipv4", 2, 0}},
		`{"type": "static"}`:                    nil,
		`{"type": "host-local", "subnet": "x"}`: nil,
	} {
		list, err := cniconf.ParseList([]byte(`{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "bridge", "ipam": ` + ipam + `}]}`))
		if err != nil {
			t.Fatal(err)
		}
		got := poolsOf(&cniconf.Network{Name: "a", List: list})
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(pool{})); diff != "" {
			t.Errorf("%s:\n%s", ipam, diff)
		}
	}
}
