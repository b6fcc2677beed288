// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hostns

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// procfs makes a directory like /proc of the process and of process 1.
func procfs(t *testing.T, change map[string]string) string {
	t.Helper()
	proc := t.TempDir()
	links := map[string]string{
		"thread-self/ns/mnt": "mnt:[1]", "thread-self/ns/net": "net:[2]", "thread-self/ns/pid": firstPID, "self/root": "/",
		"1/ns/mnt": "mnt:[1]", "1/ns/net": "net:[2]", "1/root": "/", "1/comm": "systemd",
	}
	for name, value := range change {
		links[name] = value
	}
	for name, value := range links {
		path := filepath.Join(proc, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		var err error
		switch {
		case value == "": // cannot be read
		case strings.HasSuffix(name, "comm"):
			err = os.WriteFile(path, []byte(value+"\n"), 0o600)
		default:
			err = os.Symlink(value, path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return proc
}

func TestOutside(t *testing.T) {
	err := Outside(errors.New("it is in a container"))
	if want := "this process may be outside of the host's namespaces: it is in a container: nothing is removed from here"; err.Error() != want {
		t.Errorf("got %s, want %s", err, want)
	}
	if errdefs.Of(err) != errdefs.Refused {
		t.Errorf("kind %v, want refused", errdefs.Of(err))
	}
}

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		change map[string]string
		reason string
	}{
		"the machine":                          {nil, ""},
		"a machine with another init":          {map[string]string{"1/comm": "s6-svscan"}, ""},
		"a system container":                   {map[string]string{"thread-self/ns/pid": "pid:[7]"}, ""},
		"a container":                          {map[string]string{"thread-self/ns/pid": "pid:[7]", "1/comm": "allocnet"}, `process 1 is "allocnet"`},
		"a container with a reaper":            {map[string]string{"thread-self/ns/pid": "pid:[7]", "1/comm": "docker-init"}, `process 1 is "docker-init"`},
		"a container with the host's PIDs":     {map[string]string{"thread-self/ns/mnt": "mnt:[9]"}, "in namespace mnt:[9], process 1 in mnt:[1]"},
		"another network namespace":            {map[string]string{"thread-self/ns/net": "net:[9]"}, "in namespace net:[9], process 1 in net:[2]"},
		"another thread in an allocation":      {map[string]string{"self/ns/net": "net:[9]"}, ""},
		"a chroot":                             {map[string]string{"self/root": "/usr"}, "root directory"},
		"process 1 cannot be read":             {map[string]string{"1/ns/mnt": ""}, "1/ns/mnt"},
		"its root cannot be read":              {map[string]string{"1/root": ""}, "1/root"},
		"the name of process 1 cannot be read": {map[string]string{"1/comm": ""}, "1/comm"},
		"no /proc of this PID namespace":       {map[string]string{"thread-self/ns/pid": ""}, "thread-self/ns/pid"},
	} {
		t.Run(name, func(t *testing.T) {
			err := check(procfs(t, test.change))
			switch {
			case test.reason == "" && err != nil:
				t.Error(err)
			case test.reason != "" && (err == nil || !strings.Contains(err.Error(), test.reason)):
				t.Errorf("got %v, want one with %q", err, test.reason)
			}
		})
	}
}
