// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/inprocess"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/state"
)

// TestReady: STATUS of every plugin of a network, in a version that has it.
func TestReady(t *testing.T) {
	unavailable := types.NewError(50, "the daemon does not run", "")
	for name, test := range map[string]struct {
		version string
		err     error
		want    error
		calls   []string
	}{
		"ready":          {"1.1.0", nil, nil, []string{"STATUS bridge", "STATUS portmap"}},
		"not ready":      {"1.1.0", unavailable, unavailable, []string{"STATUS bridge"}},
		"without STATUS": {"1.0.0", nil, ErrNoStatus, nil},
		"no version":     {"one", nil, ErrNoStatus, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t, nil)
			m.network(t, "n", "bridge", "portmap")
			m.exec.answer = func(context.Context, fakeCall) (bool, []byte, error) { return test.err != nil, nil, test.err }
			catalog, err := m.Catalog()
			if err != nil || len(catalog.Networks) != 1 {
				t.Fatalf("%+v, %v", catalog, err)
			}
			catalog.Networks[0].List.CNIVersion = test.version
			if err := m.Ready(t.Context(), catalog.Networks[0]); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if got := m.exec.names(); !slices.Equal(got, test.calls) {
				t.Errorf("calls %q, want %q", got, test.calls)
			}
		})
	}
}

// TestReadyRouted: a plugin that does not forward is not asked for a pool that spans hosts.
func TestReadyRouted(t *testing.T) {
	m := newMemory(t, nil)
	m.network(t, "n", "bridge")
	catalog, err := m.Catalog()
	if err != nil || len(catalog.Networks) != 1 {
		t.Fatalf("%+v, %v", catalog, err)
	}
	list, err := cniconf.ParseList([]byte(`{"cniVersion": "1.1.0", "name": "n", "plugins": [{"type": "bridge", "ipam": {"type": "allocnet-ipam", "pool": "p", "mode": "routed", "ranges": [{"subnet": "10.0.0.0/24"}]}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	catalog.Networks[0].List = list
	if err := m.Ready(t.Context(), catalog.Networks[0]); errdefs.Of(err) != errdefs.Refused || len(m.exec.names()) > 0 {
		t.Errorf("got %v, and calls %q, want that it is refused", err, m.exec.names())
	}
}

// TestReadyInProcess: plugins that are installed are not asked for a network that they do not attach. Those of before CNI 1.1 know no
// STATUS.
func TestReadyInProcess(t *testing.T) {
	conf, plugins := t.TempDir(), t.TempDir()
	text := `{"cniVersion": "1.1.0", "name": "n", "plugins": [{"type": "bridge", "bridge": "n0", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.0.0.0/24"}]]}}]}`
	err := os.WriteFile(filepath.Join(conf, "n.conflist"), []byte(text), 0o600)
	for _, name := range []string{"bridge", "host-local"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(plugins, name), []byte("#!/bin/sh\nexit 1\n"), 0o700))
	}
	if err != nil {
		t.Fatal(err)
	}
	for executor, ready := range map[string]bool{ExecutorAuto: true, ExecutorPlugins: false} {
		e, err := NewEngine(Config{ConfDirs: []string{conf}, PluginDirs: []string{plugins}, StateDir: t.TempDir(), Executor: executor, InProcess: referenced{}})
		if err != nil {
			t.Fatal(err)
		}
		catalog, err := cniconf.Load(conf)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Ready(t.Context(), catalog.Networks[0]); (err == nil) != ready {
			t.Errorf("executor %s: %v, want ready: %t", executor, err, ready)
		}
	}
}

// referenced is a host whose plugins are the reference ones.
type referenced struct{ config.InProcess }

func (referenced) Supports(*libcni.NetworkConfigList, []string) error { return nil }

func (referenced) Chain(state.Attachment, *remedy.Repair, plugin.Seams) config.Chain {
	return &inprocess.Chain{}
}
