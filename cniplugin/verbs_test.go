// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/state"
)

// testHost is a host that consists of temporary directories.
type testHost struct {
	*testing.T
	conf, plugins, state string
}

func newTestHost(t *testing.T) testHost {
	t.Helper()
	return testHost{t, t.TempDir(), t.TempDir(), t.TempDir()}
}

// network writes a network whose only plugin answers each verb with a shell script.
func (h testHost) network(name, version, capabilities, script string) {
	h.Helper()
	text := fmt.Sprintf(`{"cniVersion": %q, "name": %q, "plugins": [{"type": %q, "capabilities": {%s}}]}`, version, name, name+"-plugin", capabilities)
	if err := os.WriteFile(filepath.Join(h.conf, name+".conflist"), []byte(text), 0o600); err != nil {
		h.Fatal(err)
	}
	if script == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(h.plugins, name+"-plugin"), []byte("#!/bin/sh\ncat > /dev/null\n"+script+"\n"), 0o700); err != nil {
		h.Fatal(err)
	}
}

// request returns a call with more keys in the plugin configuration.
func (h testHost) request(more string) *request {
	h.Helper()
	c := good(h.T, more)
	c.ConfDir, c.PluginDir = h.conf, h.plugins
	engine, err := hook.NewEngine(hook.Config{
		ConfDirs: []string{h.conf}, PluginDirs: []string{h.plugins}, StateDir: h.state, CacheDir: h.TempDir(), NetnsDir: h.TempDir(),
		PolicyFile: filepath.Join(h.TempDir(), "none"), Catalog: c.catalog,
	})
	if err != nil {
		h.Fatal(err)
	}
	return &request{ctx: h.Context(), args: &skel.CmdArgs{ContainerID: "a1", IfName: "eth0", Netns: "/run/netns/a1"}, conf: c, engine: engine, log: hclog.NewNullLogger()}
}

func TestAdmitNetns(t *testing.T) {
	for netns, words := range map[string][]string{
		"/proc/self/ns/net":                     {"the host's own namespace", "want the container's"},
		filepath.Join(t.TempDir(), "not-there"): {"not-there"},
		t.TempDir():                             {},
	} {
		r := newTestHost(t).request(`"primary": "web"`)
		r.args.Netns = netns
		requireError(t, r.admit(), types.ErrInvalidNetNS, words...)
	}
}

func TestAdmitConf(t *testing.T) {
	const prevResult = `, "prevResult": {"cniVersion": "1.0.0"}`
	for name, test := range map[string]struct {
		conf  string
		code  uint
		words []string
	}{
		"a primary":                  {`"primary": "plain"`, 0, nil},
		"a delegate":                 {`"delegates": [{"cniVersion": "1.0.0", "name": "main", "type": "bridge"}]`, 0, nil},
		"chained":                    {`"networks": "plain"` + prevResult, 0, nil},
		"no main network":            {`"networks": "plain"`, 7, []string{"no main network", `"primary"`, `"delegates"`}},
		"two main networks":          {`"primary": "plain"` + prevResult, 7, []string{`primary "plain"`, "before it"}},
		"all after others":           {`"result": "all"` + prevResult, 7, []string{`result "all"`, "CHECK"}},
		"an unknown primary":         {`"primary": "none"`, 7, []string{`unknown network "none"`}},
		"ports that are not passed":  {`"primary": "ports"`, 7, []string{`"capabilities" lacks portMappings`, `network "ports"`, "conf generate"}},
		"ports that are passed":      {`"primary": "ports", "capabilities": {"portMappings": true}`, 0, nil},
		"ports, but not the primary": {`"primary": "plain", "networks": "ports"`, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newTestHost(t)
			h.network("plain", "1.0.0", "", "")
			h.network("ports", "1.0.0", `"portMappings": true`, "")
			err := h.request(test.conf).admitConf()
			if test.code == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			failed := cniError(orNone(err))
			if failed.Code != test.code {
				t.Errorf("code %d, want %d", failed.Code, test.code)
			}
			for _, word := range test.words {
				if !strings.Contains(failed.Msg, word) {
					t.Errorf("%q does not have %q", failed.Msg, word)
				}
			}
		})
	}
}

// TestNetworksAreReadOnce: of the primary network, the call has to know before the set-up whether it maps ports.
func TestNetworksAreReadOnce(t *testing.T) {
	h := newTestHost(t)
	h.network("plain", "1.0.0", "", "")
	opened := countOpens(t, filepath.Join(h.conf, "plain.conflist"))
	conf := fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "multi", "type": "allocnet-cni", "primary": "plain", "confDir": %q, "pluginDir": %q, "stateDir": %q}`, h.conf, h.plugins, h.state)
	r, err := testCall("ADD").newRequest(t.Context(), &skel.CmdArgs{ContainerID: "a1", IfName: "eth0", Netns: "/run/netns/none", StdinData: []byte(conf)}, true)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	setup, err := r.setup()
	if err = errors.Join(err, r.admitConf()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.engine.Setup(r.ctx, setup); err == nil || !strings.Contains(err.Error(), `plugin "plain-plugin" is not installed`) {
		t.Errorf("set up without a plugin: %v", err)
	}
	if n := opened(); n != 1 {
		t.Errorf("the network was read %d times, want once", n)
	}
}

// countOpens returns how often a file was opened since.
func countOpens(t *testing.T, path string) func() int {
	t.Helper()
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err == nil {
		_, err = unix.InotifyAddWatch(watch, path, unix.IN_OPEN|unix.IN_CLOSE) // of equal events in a row the kernel keeps one
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(watch) })
	return func() (opens int) {
		t.Helper()
		events := make([]byte, 64*unix.SizeofInotifyEvent)
		n, err := unix.Read(watch, events)
		if err != nil {
			t.Fatal(err)
		}
		for event := range slices.Chunk(events[:n], unix.SizeofInotifyEvent) {
			if binary.NativeEndian.Uint32(event[4:])&unix.IN_OPEN != 0 {
				opens++
			}
		}
		return opens
	}
}

// orNone returns an error in any case.
func orNone(err error) error {
	if err == nil {
		return fmt.Errorf("no error")
	}
	return err
}

func TestStatus(t *testing.T) {
	h := newTestHost(t)
	h.network("ready", "1.1.0", "", "exit 0")
	h.network("old", "1.0.0", "", "exit 1")
	h.network("full", "1.1.0", "", `echo '{"cniVersion": "1.1.0", "code": 51, "msg": "no address left"}'; exit 1`)
	h.network("missing", "1.1.0", "", "")
	for conf, word := range map[string]string{
		`"primary": "ready"`:                        "",
		`"primary": "old", "networks": "ready"`:     "",
		`"primary": "ready", "networks": "full"`:    "no address left",
		`"primary": "missing"`:                      "missing-plugin",
		`"primary": "none"`:                         `unknown network "none"`,
		`"networks": "none", "primary": "ready"`:    `unknown network "none"`,
		`"networks": "missing", "primary": "ready"`: "missing-plugin",
	} {
		err := status(h.request(conf))
		if word == "" {
			if err != nil {
				t.Errorf("%s: %v", conf, err)
			}
			continue
		}
		requireError(t, err, types.ErrPluginNotAvailable, word)
	}
}

// TestOwnsRecord: a DEL for another attachment of the container ID changes nothing.
func TestOwnsRecord(t *testing.T) {
	h := newTestHost(t)
	r := h.request(`"primary": "web"`)
	requireOwned := func(what string, want bool) {
		t.Helper()
		if owned, err := r.engine.TeardownOwned(t.Context(), "a1", r.owner()); err != nil || owned != want {
			t.Errorf("%s: owned %t, %v, want %t", what, owned, err, want)
		}
	}
	requireOwned("no record", true)
	store, err := state.Open(h.state)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		owner string
		want  bool
	}{{"", true}, {"cni/multi/eth1", false}, {"cni/multi/eth0", true}, {"cni/other/eth0", false}} { // the last one stays
		l, err := store.Lock(context.Background(), "a1")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Begin(state.Allocation{ID: "a1", Mode: state.ModeSetup, Owner: test.owner}, nil); err != nil {
			t.Fatal(err)
		}
		l.Unlock()
		requireOwned("owner "+test.owner, test.want)
	}
	r.conf.Name = "third"
	if err := del(r); err != nil {
		t.Error(err)
	}
	if _, err := store.Read("a1"); err != nil {
		t.Errorf("DEL of another conflist removed the record: %v", err)
	}
}

// TestCheckPasses: without a valid plugin configuration CHECK cannot see damage.
func TestCheckPasses(t *testing.T) {
	if _, err := check(t.Context(), testCall("CHECK"), &skel.CmdArgs{ContainerID: "a1", StdinData: []byte(`{"stateDir": "/proc/none/state"}`)}); err != nil {
		t.Error(err)
	}
}

// TestGCWithoutList: no list of valid attachments is not an empty one.
func TestGCWithoutList(t *testing.T) {
	r := newTestHost(t).request(`"primary": "web"`)
	requireError(t, gc(r), types.ErrInvalidNetworkConfig, "valid-attachments", "nothing is removed")
}
