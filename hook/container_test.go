// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// planner returns an engine with the network web, whose plugin is never run.
func planner(t *testing.T) *Engine {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"web.conf": `{"cniVersion": "1.0.0", "name": "web", "type": "plugin"}`, "plugin": "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	e, err := NewEngine(Config{ConfDirs: []string{dir}, PluginDirs: []string{dir}, StateDir: dir + "/state", PolicyFile: dir + "/none"})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestContainerIDs: the primary has the allocation's, all others one of their
// own.
func TestContainerIDs(t *testing.T) {
	e := planner(t)
	web := selection.Element{Name: "web"}
	for name, test := range map[string]struct {
		request Request
		want    []string
	}{
		"with a primary": {Request{ID: "w1", Primary: &web, Networks: []selection.Element{web, web}}, []string{"w1", "w1.allocnet.net1", "w1.allocnet.net2"}},
		"without":        {Request{ID: "w1", Networks: []selection.Element{web, {Name: "web", Interface: "d.0"}}}, []string{"w1.allocnet.net1", "w1.allocnet.d_2e0"}},
	} {
		p, err := e.plan(test.request, "d")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		o := e.on(state.Record{})
		for _, a := range p.Attachments() {
			got = append(got, o.runtimeConf(a, "").ContainerID)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	var refused *RequestError
	_, err := e.plan(Request{ID: strings.Repeat("x", 120), Networks: []selection.Element{web}}, "d")
	if !errors.As(err, &refused) || !strings.Contains(refused.Reason, "net1") {
		t.Errorf("an ID that is too long for its attachment: %v", err)
	}
}

// TestRecalledContainerIDs: libcni's cache has the attachments under different
// container IDs, and another runtime's and another allocation's beside them.
func TestRecalledContainerIDs(t *testing.T) {
	o := cacheOf(t, "a")
	write := func(o *operation, containerID, iface, config string) {
		t.Helper()
		a := primaryOf(containerID, iface)
		a.ConfList = []byte(config)
		if err := o.config.cache().Write(a, o.record.Allocation.Netns); err != nil {
			t.Fatal(err)
		}
	}
	const ours, another = `{"allocnet": {"attachment": {"index": 1, "batch": {"kind": "setup"}}}}`, `{}`
	const incomplete = `{"allocnet": {"attachment": {"index": 1}}}`
	write(o, "a", "eth0", ours)
	write(o, "a.allocnet.net1", "net1", ours)
	write(o, "a", "eth1", another)
	write(o, "a", "eth2", incomplete)
	write(o, "a-b", "eth0", ours)
	write(o, "a-b.allocnet.net1", "net1", ours)
	write(o, "ab", "eth0", ours)
	if err := os.WriteFile(filepath.Join(o.config.CacheDir, "results", "web-a-net7"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := o.loadFromCache(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range o.record.Attachments {
		got = append(got, a.ContainerID+" "+a.Interface+" "+a.Network)
	}
	if want := []string{"a eth0 web", "a.allocnet.net1 net1 web"}; !slices.Equal(got, want) {
		t.Errorf("recalled %q, want %q", got, want)
	}
	empty := newOperation(&Config{CacheDir: t.TempDir(), Logger: hclog.NewNullLogger()}, nil, state.Record{Allocation: state.Allocation{ID: "a"}})
	if err := empty.loadFromCache(); err != nil || len(empty.record.Attachments) != 0 {
		t.Errorf("without a cache: %v, %v", empty.record.Attachments, err)
	}
}

// TestUnreadableCache: without a record and with a cache that cannot be read it is not known what there is: no call reports success.
func TestUnreadableCache(t *testing.T) {
	e := fakeEngine(t, nil)
	if err := os.WriteFile(filepath.Join(e.config.CacheDir, "results"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for call, err := range map[string]error{
		"Teardown": e.Teardown(t.Context(), "a"),
		"Release":  e.Release(t.Context(), "a", "web"),
		"Setup":    attachAgain(t, e),
	} {
		if err == nil || !strings.Contains(err.Error(), "read libcni's cache: ") {
			t.Errorf("%s: %v", call, err)
		}
	}
}
