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
	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/cniplugin"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/searchpath"
	"github.com/allocnet/allocnet/internal/version"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/selection"
)

// PluginName is the CNI plugin whose work the agent does.
const PluginName = cniplugin.Name

// NetworkSource reads the networks that a job selects outside of the CNI call.
type NetworkSource interface {
	// Networks returns whose an allocation is, its networks, and what its job leaves of their traffic.
	Networks(ctx context.Context, id string) (selection.Job, error)
	// Forget drops the stored networks of an allocation that has ended.
	Forget(id string) error
}

// Plugin is a CNI that does what allocnet-cni does, so that a call has the same effect with and
// without the agent.
type Plugin struct {
	// Path is that of allocnet-cni, inside Chroot. It is executed for the calls of another build than
	// the agent's, of which only that knows what it expects. Empty: these are not supported.
	Path string
	// Executed is whether Path is executed for each call, as with a Chroot. Default: the agent does the
	// work in its own process.
	Executed bool
	// Chroot is where the host's files are; the plugin and those that it
	// delegates to run there. Empty: where the agent runs.
	Chroot string
	// JobNetworks are added to the networks of the call, with the identity. Nil: none.
	JobNetworks NetworkSource
	// Log gets what calls in this process log. Default: nothing does.
	Log hclog.Logger
}

var _ CNI = (*Plugin)(nil)

// Call carries out a call, and returns what the plugin prints.
func (p *Plugin) Call(ctx context.Context, call api.CNI) ([]byte, error) {
	elsewhere, err := p.elsewhere(call.Build)
	if err != nil {
		return nil, err
	}
	keys, err := pluginKeys(call.Config)
	if err != nil {
		return nil, err
	}
	var printed []byte
	if elsewhere {
		printed, err = p.execute(ctx, call.Env, keys)
	} else {
		printed, err = p.run(ctx, call, keys)
	}
	if err == nil && call.Env["CNI_COMMAND"] == "DEL" && p.JobNetworks != nil {
		err = p.JobNetworks.Forget(call.Env["CNI_CONTAINERID"])
	}
	return printed, err
}

// elsewhere tells whether the calls of a build are carried out by a process of their own.
func (p *Plugin) elsewhere(build string) (bool, error) {
	skew := build != "" && build != version.Build()
	if skew && p.Path == "" {
		return false, unsupported(fmt.Sprintf("the caller is build %q, and the agent %q: restart the agent, or install %s of its build in a directory of plugin_dirs", build, version.Build(), PluginName))
	}
	return skew || p.Executed || p.Chroot != "", nil
}

// run carries out a call in this process. Nothing of the error tells that of an engine from that of a
// plugin, as if it were executed.
func (p *Plugin) run(ctx context.Context, call api.CNI, keys map[string]json.RawMessage) ([]byte, error) {
	var refused error
	c := cniplugin.Call{
		Getenv: func(name string) string { return call.Env[name] }, Config: bytes.NewReader(call.Config),
		Args: func(ctx context.Context) (added map[string]json.RawMessage, err error) {
			added, refused = p.jobArgs(ctx, call.Env, keys)
			return added, refused
		},
	}
	if p.Log != nil {
		c.Log = p.Log.StandardWriter(&hclog.StandardLoggerOptions{InferLevels: true, InferLevelsWithTimestamp: true})
	}
	c.Later = func(config []byte) error {
		again := c
		again.Config, again.Args = bytes.NewReader(config), nil
		go again.RetryPending(context.WithoutCancel(ctx)) //nolint:errcheck // it is logged; with the agent ends the retry, too, and what is pending is on record
		return nil
	}
	printed, failed := c.Run(ctx)
	switch {
	case refused != nil:
		return nil, refused
	case failed != nil:
		return nil, &api.Error{Code: failed.Code, Msg: failed.Msg, Details: failed.Details, Status: http.StatusInternalServerError}
	}
	return printed, nil
}

// execute executes the plugin as a runtime does, without the key agent, with which it would call the
// agent again. The error is the *types.Error of its output, or has its exit status.
func (p *Plugin) execute(ctx context.Context, env map[string]string, keys map[string]json.RawMessage) ([]byte, error) {
	if _, err := p.jobArgs(ctx, env, keys); err != nil {
		return nil, err
	}
	delete(keys, "agent")
	config, err := json.Marshal(keys)
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
	return bytes.TrimSpace(stdout.Bytes()), nil
}

func (p *Plugin) failure(stdout []byte, stderr string, err error) error {
	var own types.Error
	if json.Unmarshal(stdout, &own) == nil && own.Code != 0 {
		return &own
	}
	return fmt.Errorf("%s: %w: %s", filepath.Base(p.Path), err, strings.TrimSpace(stderr))
}

// pluginKeys returns the keys of a plugin configuration.
func pluginKeys(config []byte) (keys map[string]json.RawMessage, err error) {
	if err := json.Unmarshal(config, &keys); err != nil {
		return nil, decodingFailure(err)
	}
	var kind string
	if err := json.Unmarshal(keys["type"], &kind); err != nil || kind != PluginName {
		return nil, decodingFailure(fmt.Errorf("type %s: want %q, the plugin that the agent runs", keys["type"], PluginName))
	}
	return keys, nil
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

// jobArgs adds what the orchestrator says of the job to args.cni, where the CNI conventions have the
// arguments of the runtime, and returns it.
func (p *Plugin) jobArgs(ctx context.Context, env map[string]string, keys map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	command := env["CNI_COMMAND"]
	if err := p.admit(command, keys["agent"]); err != nil {
		return nil, err
	}
	if p.JobNetworks == nil || command != "ADD" && command != "CHECK" {
		return nil, nil
	}
	ctx, stop := limitRead(ctx, keys["timeout"])
	defer stop()
	job, err := p.JobNetworks.Networks(ctx, env["CNI_CONTAINERID"])
	if err != nil {
		return nil, err
	}
	added, err := argsOf(job)
	if err != nil {
		return nil, err
	}
	return added, addArgs(keys, added)
}

// argsOf is what args.cni has of a job.
func argsOf(job selection.Job) (added map[string]json.RawMessage, err error) {
	all := map[string]any{}
	if job.Identity != (policy.Identity{}) {
		all["identity"] = job.Identity
	}
	if len(job.Networks) > 0 {
		all["networks"] = job.Networks
	}
	if job.Narrowing.Ingress != "" {
		all["ingress"] = job.Narrowing.Ingress
	}
	if job.Narrowing.Egress != "" {
		all["egress"] = job.Narrowing.Egress
	}
	added = map[string]json.RawMessage{}
	for key, value := range all {
		if added[key], err = json.Marshal(value); err != nil {
			return nil, err
		}
	}
	return added, nil
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

func addArgs(keys, added map[string]json.RawMessage) error {
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
		args["cni"][key] = value
	}
	data, err := json.Marshal(args)
	keys["args"] = data
	return err
}
