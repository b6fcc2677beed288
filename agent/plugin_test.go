// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/version"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/selection"
)

// noted knows the allocation "a" of the namespace prod, which has a job network, and "n", which
// has none. It records the forgotten IDs.
type noted struct{ forgotten []string }

func (n *noted) Networks(_ context.Context, id string) (j selection.Job, err error) {
	switch who := (policy.Identity{Namespace: "prod", Job: "db"}); id {
	case "a":
		j = selection.Job{Identity: who, Networks: []selection.Element{{Name: "storage", Interface: "net5"}}}
	case "n":
		j = selection.Job{Identity: who}
	case "narrow":
		j = selection.Job{Identity: who, Narrowing: selection.Narrowing{Ingress: "5432/tcp", Egress: "dns"}}
	}
	return j, nil
}

func (n *noted) Forget(id string) error {
	n.forgotten = append(n.forgotten, id)
	return nil
}

// script is a plugin that a shell runs.
func script(t *testing.T, text string) *Plugin {
	t.Helper()
	path := filepath.Join(t.TempDir(), PluginName)
	write(t, path, "#!/bin/sh\n"+text)
	return &Plugin{Path: path, Executed: true}
}

func TestPluginCall(t *testing.T) {
	p := script(t, `[ "$CNI_COMMAND" = DEL ] || cat`)
	source := &noted{}
	p.JobNetworks = source
	call := func(command, id, config string) (string, error) {
		result, err := p.Call(context.Background(), api.CNI{Env: map[string]string{"CNI_COMMAND": command, "CNI_CONTAINERID": id}, Config: []byte(config)})
		return string(result), err
	}
	for _, test := range []struct{ command, id, config, want string }{
		{"ADD", "a", `{"type": "allocnet-cni", "agent": {"socket": "/x"}}`, `{"args": {"cni": {"identity": {"namespace": "prod", "job": "db"}, "networks": [{"name": "storage", "interface": "net5"}]}}, "type": "allocnet-cni"}`},
		{"ADD", "n", `{"type": "allocnet-cni"}`, `{"args": {"cni": {"identity": {"namespace": "prod", "job": "db"}}}, "type": "allocnet-cni"}`},
		{"ADD", "narrow", `{"type": "allocnet-cni"}`, `{"args": {"cni": {"identity": {"namespace": "prod", "job": "db"}, "ingress": "5432/tcp", "egress": "dns"}}, "type": "allocnet-cni"}`},
		{"ADD", "b", `{"type": "allocnet-cni", "agent": {"mode": "require", "jobNetworks": true}}`, `{"type": "allocnet-cni"}`},
		{"ADD", "a", `{"type": "allocnet-cni", "args": {"cni": {"x": 1}, "y": {"z": 2}}}`, `{"args": {"cni": {"identity": {"namespace": "prod", "job": "db"}, "networks": [{"name": "storage", "interface": "net5"}], "x": 1}, "y": {"z": 2}}, "type": "allocnet-cni"}`},
		{"ADD", "b", `{"type": "allocnet-cni"}`, `{"type": "allocnet-cni"}`},
		{"STATUS", "a", `{"type": "allocnet-cni"}`, `{"type": "allocnet-cni"}`},
	} {
		result, err := call(test.command, test.id, test.config)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(decoded(t, test.want), decoded(t, result)); diff != "" {
			t.Errorf("%s %s:\n%s", test.command, test.config, diff)
		}
	}
	if result, err := call("DEL", "a", `{"type": "allocnet-cni"}`); result != "" || err != nil || !cmp.Equal(source.forgotten, []string{"a"}) {
		t.Errorf("DEL: %q, %v, forgotten %v", result, err, source.forgotten)
	}
	for config, word := range map[string]string{
		`{"type": "bridge"}`: "allocnet-cni", `{}`: "allocnet-cni", `[]`: "cannot be read",
		`{"type": "allocnet-cni", "args": {"cni": {"networks": "x"}}}`: "args.cni.networks: is set already",
		`{"type": "allocnet-cni", "args": {"cni": {"identity": {}}}}`:  "args.cni.identity: is set already",
	} {
		_, err := call("ADD", "a", config)
		var refused *api.Error
		if !errors.As(err, &refused) || refused.Code != api.CodeDecoding || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v, want %q", config, err, word)
		}
	}
}

// silent is a Nomad that does not answer.
type silent struct{ NetworkSource }

func (silent) Networks(ctx context.Context, _ string) (selection.Job, error) {
	<-ctx.Done()
	return selection.Job{}, context.Cause(ctx)
}

// TestSilentNomad: the caller hears that Nomad does not answer while it still waits.
func TestSilentNomad(t *testing.T) {
	p := script(t, "cat")
	p.JobNetworks = silent{}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	_, err := p.Call(ctx, api.CNI{Env: map[string]string{"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "a"}, Config: []byte(`{"type": "allocnet-cni", "timeout": "60ms"}`)})
	if err == nil || err.Error() != "no answer within 50ms" || api.StatusOf(err) != http.StatusGatewayTimeout {
		t.Errorf("%v, status %d", err, api.StatusOf(err))
	}
}

// TestPluginWithoutJobNetworks: an agent that does not read the networks of jobs attaches none
// of a conflist whose jobs select networks so.
func TestPluginWithoutJobNetworks(t *testing.T) {
	p := script(t, `cat`)
	const conflist = `{"type": "allocnet-cni", "agent": {"mode": "require", "jobNetworks": true}}`
	for verb, refuses := range map[string]bool{"ADD": true, "STATUS": true, "CHECK": false, "DEL": false, "GC": false} {
		_, err := p.Call(t.Context(), api.CNI{Env: map[string]string{"CNI_COMMAND": verb, "CNI_CONTAINERID": "a"}, Config: []byte(conflist)})
		var refused *api.Error
		if errors.As(err, &refused) != refuses || refuses && (refused.Code != api.CodeInvalidConfig || !strings.Contains(err.Error(), "job_networks = true")) {
			t.Errorf("%s: %v, want refused: %t", verb, err, refuses)
		}
	}
	if _, err := p.Call(t.Context(), api.CNI{Env: map[string]string{"CNI_COMMAND": "ADD"}, Config: []byte(`{"type": "allocnet-cni", "agent": {"mode": "require"}}`)}); err != nil {
		t.Errorf("without job networks: %v", err)
	}
}

func decoded(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return value
}

func TestPluginFails(t *testing.T) {
	call := api.CNI{Env: map[string]string{"CNI_COMMAND": "ADD"}, Config: []byte(`{"type": "allocnet-cni"}`)}
	_, err := script(t, `echo '{"code": 11, "msg": "busy"}'; exit 1`).Call(context.Background(), call)
	var own *types.Error
	if !errors.As(err, &own) || own.Code != 11 {
		t.Errorf("an error of the plugin's own: %v", err)
	}
	_, err = script(t, `echo boom >&2; exit 3`).Call(context.Background(), call)
	if err == nil || !strings.Contains(err.Error(), "exit status 3: boom") {
		t.Errorf("without a word: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err = script(t, `sleep 60`).Call(ctx, call); err == nil {
		t.Error("cancelled, and no error")
	}
}

// TestElsewhere: the call of another build than the agent's is one of its plugin.
func TestElsewhere(t *testing.T) {
	call := api.CNI{Env: map[string]string{"CNI_COMMAND": "STATUS", "CNI_PATH": "/p"}, Config: []byte(`{"type": "allocnet-cni", "name": "m", "cniVersion": "1.0.0"}`)}
	p := script(t, "cat")
	p.Executed = false
	for build, executed := range map[string]bool{"": false, version.Build(): false, "0.0.9 a": true} {
		call.Build = build
		printed, err := p.Call(t.Context(), call)
		if executed != (err == nil && strings.Contains(string(printed), "allocnet-cni")) {
			t.Errorf("build %q: %s, %v, want it executed: %t", build, printed, err, executed)
		}
	}
	var refused *api.Error
	call.Build = "0.0.9 a"
	if _, err := (&Plugin{}).Call(t.Context(), call); !errors.As(err, &refused) || refused.Status != http.StatusNotImplemented || !strings.Contains(err.Error(), `"0.0.9 a"`) {
		t.Errorf("another build, and no plugin: %v", err)
	}
	call.Build = ""
	if _, err := (&Plugin{}).Call(t.Context(), call); !errors.As(err, &refused) || refused.Status != http.StatusInternalServerError || refused.Code != types.ErrIncompatibleCNIVersion {
		t.Errorf("in this process: %v", err)
	}
}

func TestRootPluginInChroot(t *testing.T) {
	roottest.Require(t)
	// A root without a shell cannot run a script: that it fails shows that the
	// path is looked up there.
	p := script(t, `cat`)
	p.Chroot = t.TempDir()
	_, err := p.Call(context.Background(), api.CNI{Env: map[string]string{"CNI_COMMAND": "ADD"}, Config: []byte(`{"type": "allocnet-cni"}`)})
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("outside of the chroot: %v", err)
	}
	p.Chroot = "/"
	if _, err := p.Call(context.Background(), api.CNI{Env: map[string]string{"CNI_COMMAND": "ADD"}, Config: []byte(`{"type": "allocnet-cni"}`)}); err != nil {
		t.Errorf("in a chroot that has it: %v", err)
	}
}
