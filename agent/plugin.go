// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/containernetworking/cni/pkg/types"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/searchpath"
	"github.com/allocnet/allocnet/selection"
)

// PluginName is the CNI plugin that carries out calls.
const PluginName = "allocnet-cni"

// Wishes knows networks that a job asks for elsewhere than in the call.
type Wishes interface {
	// Networks returns those of an allocation; none for one that asks for
	// nothing more, or is not the orchestrator's.
	Networks(ctx context.Context, id string) ([]selection.Element, error)
	// Forget drops what is known of an allocation that is gone.
	Forget(id string) error
}

// Plugin is a CNI that runs the plugin as a runtime would, so that a call by
// the agent does the same as one without it.
type Plugin struct {
	// Path is the plugin's, inside Chroot. Required.
	Path string
	// Chroot is where the host's files are; the plugin and those that it
	// delegates to run there. Empty: where the agent runs.
	Chroot string
	// Wishes are added to the networks that the call names. Nil: none.
	Wishes Wishes
}

var _ CNI = (*Plugin)(nil)

// Call runs the plugin. The error is the *types.Error that it printed, or says
// how it ended.
func (p *Plugin) Call(ctx context.Context, env map[string]string, config []byte) ([]byte, error) {
	config, err := p.prepare(ctx, env, config)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, p.Path)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(config), &stdout, &stderr
	cmd.Env = []string{"PATH=" + searchpath.System}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Dir = "/"
	// SIGTERM has the plugin undo what it began.
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	// So has the agent's own death: the caller will do the work itself. It is
	// the thread's, strictly, which therefore has to outlive the plugin.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Chroot: p.Chroot, Pdeathsig: unix.SIGTERM}
	if err := cmd.Run(); err != nil {
		return nil, p.failure(stdout.Bytes(), stderr.String(), err)
	}
	if env["CNI_COMMAND"] == "DEL" && p.Wishes != nil {
		return nil, p.Wishes.Forget(env["CNI_CONTAINERID"])
	}
	return bytes.TrimSpace(stdout.Bytes()), nil
}

func (p *Plugin) failure(stdout []byte, stderr string, err error) error {
	var own types.Error
	if json.Unmarshal(stdout, &own) == nil && own.Code != 0 {
		return &own
	}
	return fmt.Errorf("%s: %w: %s", filepath.Base(p.Path), err, strings.TrimSpace(stderr))
}

// prepare takes the agent out of the configuration, which would make the
// plugin call back, and adds the wishes.
func (p *Plugin) prepare(ctx context.Context, env map[string]string, config []byte) ([]byte, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(config, &keys); err != nil {
		return nil, decodingFailure(err)
	}
	var kind string
	if err := json.Unmarshal(keys["type"], &kind); err != nil || kind != PluginName {
		return nil, decodingFailure(fmt.Errorf("type %s: want %q, the plugin that the agent runs", keys["type"], PluginName))
	}
	delete(keys, "agent")
	if p.Wishes != nil && (env["CNI_COMMAND"] == "ADD" || env["CNI_COMMAND"] == "CHECK") {
		if err := p.addWishes(ctx, env["CNI_CONTAINERID"], keys); err != nil {
			return nil, err
		}
	}
	return json.Marshal(keys)
}

// addWishes puts the networks where the CNI conventions have arguments of the
// runtime, under the key by which the plugin knows them.
func (p *Plugin) addWishes(ctx context.Context, id string, keys map[string]json.RawMessage) error {
	networks, err := p.Wishes.Networks(ctx, id)
	if err != nil || len(networks) == 0 {
		return err
	}
	args := map[string]map[string]json.RawMessage{}
	if keys["args"] != nil {
		if err := json.Unmarshal(keys["args"], &args); err != nil {
			return decodingFailure(fmt.Errorf("args: %w", err))
		}
	}
	if args["cni"] == nil {
		args["cni"] = map[string]json.RawMessage{}
	}
	if args["cni"]["networks"] != nil {
		return decodingFailure(errors.New("args.cni.networks: stands there already, and the job names networks by its blocks, too"))
	}
	if args["cni"]["networks"], err = json.Marshal(networks); err != nil {
		return err
	}
	keys["args"], err = json.Marshal(args)
	return err
}
