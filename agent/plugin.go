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

// PluginName is the CNI plugin that the agent executes.
const PluginName = "allocnet-cni"

// NetworkSource reads the networks that a job selects outside of the CNI call.
type NetworkSource interface {
	// Networks returns the networks of an allocation; none for an allocation that
	// selects no further networks, or that is not the orchestrator's.
	Networks(ctx context.Context, id string) ([]selection.Element, error)
	// Forget drops the stored networks of an allocation that has ended.
	Forget(id string) error
}

// Plugin is a CNI that executes the plugin as a runtime does, so that a call has
// the same effect with and without the agent.
type Plugin struct {
	// Path is the plugin's, inside Chroot. Required.
	Path string
	// Chroot is where the host's files are; the plugin and those that it
	// delegates to run there. Empty: where the agent runs.
	Chroot string
	// JobNetworks are added to the networks of the call. Nil: none.
	JobNetworks NetworkSource
}

var _ CNI = (*Plugin)(nil)

// Call executes the plugin. The error is the *types.Error of its output, or has its
// exit status.
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
	// On SIGTERM the plugin undoes its work.
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	// If the agent dies, too: the caller then does the work itself. The signal is
	// sent when the thread ends, which therefore has to outlive the plugin.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Chroot: p.Chroot, Pdeathsig: unix.SIGTERM}
	if err := cmd.Run(); err != nil {
		return nil, p.failure(stdout.Bytes(), stderr.String(), err)
	}
	if env["CNI_COMMAND"] == "DEL" && p.JobNetworks != nil {
		return nil, p.JobNetworks.Forget(env["CNI_CONTAINERID"])
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

// prepare removes the key agent from the configuration, with which the plugin would
// call the agent again, and adds the job's networks.
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
	if p.JobNetworks != nil && (env["CNI_COMMAND"] == "ADD" || env["CNI_COMMAND"] == "CHECK") {
		if err := p.addJobNetworks(ctx, env["CNI_CONTAINERID"], keys); err != nil {
			return nil, err
		}
	}
	return json.Marshal(keys)
}

// addJobNetworks adds the networks to args.cni, where the CNI conventions have the
// arguments of the runtime.
func (p *Plugin) addJobNetworks(ctx context.Context, id string, keys map[string]json.RawMessage) error {
	networks, err := p.JobNetworks.Networks(ctx, id)
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
		return decodingFailure(errors.New("args.cni.networks: is set already, and the job selects networks by its blocks, too"))
	}
	if args["cni"]["networks"], err = json.Marshal(networks); err != nil {
		return err
	}
	keys["args"], err = json.Marshal(args)
	return err
}
