// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/searchpath"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/selection"
)

// PluginName is the CNI plugin that the agent executes.
const PluginName = "allocnet-cni"

// NetworkSource reads the networks that a job selects outside of the CNI call.
type NetworkSource interface {
	// Networks returns whose an allocation is, and its networks; neither for an allocation
	// that is not the orchestrator's.
	Networks(ctx context.Context, id string) (policy.Identity, []selection.Element, error)
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
	// JobNetworks are added to the networks of the call, with the identity. Nil: none.
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
// call the agent again, and adds what the orchestrator says of the job.
func (p *Plugin) prepare(ctx context.Context, env map[string]string, config []byte) ([]byte, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(config, &keys); err != nil {
		return nil, decodingFailure(err)
	}
	var kind string
	if err := json.Unmarshal(keys["type"], &kind); err != nil || kind != PluginName {
		return nil, decodingFailure(fmt.Errorf("type %s: want %q, the plugin that the agent runs", keys["type"], PluginName))
	}
	if err := p.admit(env["CNI_COMMAND"], keys["agent"]); err != nil {
		return nil, err
	}
	delete(keys, "agent")
	if p.JobNetworks != nil && (env["CNI_COMMAND"] == "ADD" || env["CNI_COMMAND"] == "CHECK") {
		if err := p.addJob(ctx, env["CNI_CONTAINERID"], keys); err != nil {
			return nil, err
		}
	}
	return json.Marshal(keys)
}

// admit refuses a call of a conflist whose jobs select networks that this agent does not
// read: the allocation would have the main network alone.
func (p *Plugin) admit(command string, agent json.RawMessage) error {
	var conf struct {
		JobNetworks bool `json:"jobNetworks"`
	}
	if p.JobNetworks != nil || command != "ADD" && command != "STATUS" || json.Unmarshal(agent, &conf) != nil || !conf.JobNetworks {
		return nil
	}
	return &api.Error{
		Code: api.CodeInvalidConfig, Msg: "the agent does not read the networks of jobs, and the conflist has \"jobNetworks\"",
		Details: "set job_networks = true in the block nomad of the agent, or run allocnet conf generate with --job-networks=false", Status: http.StatusUnprocessableEntity,
	}
}

// addJob adds identity and networks to args.cni, where the CNI conventions have the
// arguments of the runtime.
func (p *Plugin) addJob(ctx context.Context, id string, keys map[string]json.RawMessage) error {
	ctx, stop := limitRead(ctx, keys["timeout"])
	defer stop()
	identity, networks, err := p.JobNetworks.Networks(ctx, id)
	if err != nil {
		return err
	}
	added := map[string]any{}
	if identity != (policy.Identity{}) {
		added["identity"] = identity
	}
	if len(networks) > 0 {
		added["networks"] = networks
	}
	return addArgs(keys, added)
}

// limitRead has a read end before the caller's time is over, which is the key timeout of the plugin
// configuration: the caller would not hear why.
func limitRead(ctx context.Context, timeout json.RawMessage) (context.Context, context.CancelFunc) {
	limit := time.Minute
	var text string
	if err := json.Unmarshal(timeout, &text); err == nil {
		if given, err := time.ParseDuration(text); err == nil { // the plugin refuses any other
			limit = given
		}
	}
	limit = limit / 6 * 5
	return context.WithTimeoutCause(ctx, limit, errdefs.New(errdefs.Timeout, fmt.Sprintf("no answer within %s", limit)))
}

func addArgs(keys map[string]json.RawMessage, added map[string]any) error {
	if len(added) == 0 {
		return nil
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
	for key, value := range added {
		if args["cni"][key] != nil {
			return decodingFailure(fmt.Errorf("args.cni.%s: is set already, and Nomad has it for this allocation, too", key))
		}
		data, err := json.Marshal(value)
		if err != nil {
			return err
		}
		args["cni"][key] = data
	}
	data, err := json.Marshal(args)
	keys["args"] = data
	return err
}
