// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/utils"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/allocnet/allocnet/cniplugin/shim"
	"github.com/allocnet/allocnet/internal/netns"
	own "github.com/allocnet/allocnet/internal/version"
)

// Name is the plugin's type.
const Name = "allocnet-cni"

// about is what a call without CNI_COMMAND logs. Nomad reads the version from it.
const about = "CNI " + Name + " plugin v" + own.Version

// Call is a call of a CNI runtime.
type Call struct {
	// Getenv returns the variables of the specification; an empty one is not set. Required.
	Getenv func(name string) string
	// Config is the plugin configuration, which a runtime writes to standard input. Required.
	Config io.Reader
	// Args returns what is added to args.cni of a configuration that is valid, and has none of it yet.
	// Its error is that of the call. Default: nothing is added.
	Args func(context.Context) (map[string]json.RawMessage, error)
	// Refusal is why the agent has not carried out the call, if the configuration delegates it. Nil: this
	// is the agent.
	Refusal *shim.Refusal
	// Log gets what the plugin writes to standard error. Default: nothing does.
	Log io.Writer
	// Later has RetryPending called for a call with this configuration, while no caller waits.
	// Default: nothing does.
	Later func(config []byte) error
	// AnnounceAgain is that of hook.Config.
	AnnounceAgain func(netns, iface string, addresses []netip.Addr)
}

type verb struct {
	// since is the version of the specification that has it. Empty: all.
	since string
	run   func(ctx context.Context, c Call, args *skel.CmdArgs) (printed []byte, err error)
}

var verbs = map[string]verb{
	"ADD":    {"", call(add, true)},
	"DEL":    {"", call(del, false)},
	"CHECK":  {"0.4.0", check},
	"GC":     {"1.1.0", call(gc, true)},
	"STATUS": {"1.1.0", call(status, true)},
}

// supported are the versions of the specification that the plugin has.
var supported = version.VersionsStartingFrom("0.3.0")

// Run carries out a call. It returns what the plugin prints, or the error object that it prints,
// as package skel of CNI has them, which knows only the process that it is in.
func (c Call) Run(ctx context.Context) (printed []byte, failed *types.Error) {
	return c.serve(ctx, verbs)
}

func (c Call) serve(ctx context.Context, verbs map[string]verb) ([]byte, *types.Error) {
	if c.Log == nil {
		c.Log = io.Discard
	}
	command := c.Getenv("CNI_COMMAND")
	if command == "" {
		_, _ = fmt.Fprintf(c.Log, "%s\nCNI protocol versions supported: %s\n", about, strings.Join(supported.SupportedVersions(), ", ")) // no other output is left
		return nil, nil
	}
	args, failed := c.args(command)
	if failed != nil {
		return nil, failed
	}
	v, known := verbs[command]
	switch {
	case command == "VERSION":
		var printed bytes.Buffer
		err := supported.Encode(&printed)
		return printed.Bytes(), asError(types.ErrIOFailure, err)
	case !known:
		return nil, types.NewError(types.ErrInvalidEnvironmentVariables, "unknown CNI_COMMAND: "+command, "")
	}
	if failed := v.allows(command, args.StdinData); failed != nil {
		return nil, failed
	}
	printed, err := v.run(ctx, c, args)
	if err == nil && command == "DEL" { // ADD has refused it
		err = forbidOwn(args)
	}
	return printed, asError(types.ErrInternal, err)
}

// asError returns an error as the object of the specification, with a code if it has none.
func asError(code uint, err error) *types.Error {
	if err == nil {
		return nil
	}
	if object, ok := errors.AsType[*types.Error](err); ok {
		return object
	}
	return types.NewError(code, err.Error(), "")
}

// ofContainer are the verbs for one container, and every those for which plugins are looked for.
var (
	ofContainer = []string{"ADD", "CHECK", "DEL"}
	every       = append([]string{"GC", "STATUS"}, ofContainer...)
)

// parameters are those that verbs require, and what their values have to be.
var parameters = []struct {
	name     string
	required []string
	validate func(string) *types.Error
}{
	{"CNI_CONTAINERID", ofContainer, utils.ValidateContainerID},
	{"CNI_NETNS", []string{"ADD", "CHECK"}, nil},
	{"CNI_IFNAME", ofContainer, utils.ValidateInterfaceName},
	{"CNI_PATH", every, nil},
}

// args reads what the call is given, and checks it as far as the verb does not matter.
func (c Call) args(command string) (*skel.CmdArgs, *types.Error) {
	var missing []string
	for _, p := range parameters {
		value := c.Getenv(p.name)
		switch {
		case !slices.Contains(p.required, command):
		case value == "":
			missing = append(missing, p.name)
		case p.validate != nil:
			if failed := p.validate(value); failed != nil {
				return nil, failed
			}
		}
	}
	if len(missing) > 0 {
		return nil, types.NewError(types.ErrInvalidEnvironmentVariables, fmt.Sprintf("required env variables [%s] missing", strings.Join(missing, ",")), "")
	}
	args := &skel.CmdArgs{
		ContainerID: c.Getenv("CNI_CONTAINERID"), Netns: c.Getenv("CNI_NETNS"), IfName: c.Getenv("CNI_IFNAME"), Args: c.Getenv("CNI_ARGS"),
		Path: c.Getenv("CNI_PATH"), NetnsOverride: c.Getenv("CNI_NETNS_OVERRIDE"),
	}
	if command == "VERSION" {
		return args, nil
	}
	var err error
	if args.StdinData, err = io.ReadAll(c.Config); err != nil {
		return nil, types.NewError(types.ErrIOFailure, fmt.Sprintf("error reading from stdin: %v", err), "")
	}
	return args, validateName(args.StdinData)
}

func validateName(config []byte) *types.Error {
	var named struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(config, &named); err != nil {
		return types.NewError(types.ErrDecodingFailure, fmt.Sprintf("error unmarshall network config: %v", err), "")
	}
	if named.Name == "" {
		return types.NewError(types.ErrInvalidNetworkConfig, "missing network name", "")
	}
	return utils.ValidateNetworkName(named.Name)
}

// allows checks that the version of a configuration has the verb, and that the plugin has the version.
func (v verb) allows(command string, config []byte) *types.Error {
	wanted, err := (&version.ConfigDecoder{}).Decode(config)
	if err != nil {
		return types.NewError(types.ErrDecodingFailure, err.Error(), "")
	}
	if v.since != "" {
		versions := supported.SupportedVersions()
		has, err := version.GreaterThanOrEqualTo(wanted, v.since)
		newer, newErr := version.GreaterThan(wanted, versions[len(versions)-1])
		switch err := cmp.Or(err, newErr); {
		case err != nil:
			return types.NewError(types.ErrDecodingFailure, err.Error(), "")
		case !has:
			return types.NewError(types.ErrIncompatibleCNIVersion, "config version does not allow "+command, "")
		case newer:
			return types.NewError(types.ErrIncompatibleCNIVersion, "plugin version does not allow "+command, "")
		}
	}
	if unknown := (&version.Reconciler{}).Check(wanted, supported); unknown != nil {
		return types.NewError(types.ErrIncompatibleCNIVersion, "incompatible CNI versions", unknown.Details())
	}
	return nil
}

// forbidOwn refuses the namespace of this process, unless the runtime allows it.
func forbidOwn(args *skel.CmdArgs) error {
	if strings.EqualFold(args.NetnsOverride, "true") || args.NetnsOverride == "1" {
		return nil
	}
	if isOwn, err := netns.IsOwn(args.Netns); err != nil || !isOwn { // one that is gone is not it
		return nil
	}
	return refuse(types.ErrInvalidNetNS, "plugin's netns and netns from CNI_NETNS should not be the same")
}

// call returns a verb whose error is always a CNI error object. A strict one requires a plugin
// configuration without mistakes.
func call(verb func(*request) error, strict bool) func(context.Context, Call, *skel.CmdArgs) ([]byte, error) {
	return func(ctx context.Context, c Call, args *skel.CmdArgs) ([]byte, error) {
		r, err := c.newRequest(ctx, args, strict)
		if err != nil {
			return nil, cniError(err)
		}
		defer r.close()
		if err := r.carryOut(verb); err != nil {
			return nil, r.outcome(err)
		}
		r.retryLater()
		return r.printed.Bytes(), nil
	}
}

func (r *request) outcome(err error) error {
	if err == nil {
		return nil
	}
	failed := cniError(err)
	r.log.Error("failed", "code", failed.Code, "error", failed.Msg)
	return failed
}

func refuse(code uint, msg string) error { return types.NewError(code, msg, "") }

// retryLater has pending teardowns retried. The runtime waits for this call, and other containers
// wait for the runtime.
func (r *request) retryLater() {
	if r.later == nil || !r.engine.RetryDue() {
		return
	}
	if err := r.later(r.args.StdinData); err != nil {
		r.log.Warn("cannot start the retry of pending teardowns", "error", err)
	}
}

// RetryPending retries pending teardowns with the configuration of a call. It may take minutes.
func (c Call) RetryPending(ctx context.Context) error {
	config, err := io.ReadAll(c.Config)
	if err != nil {
		return err
	}
	r, err := c.newRequest(ctx, &skel.CmdArgs{StdinData: config, Path: c.Getenv("CNI_PATH")}, false)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.engine.RetryPending(r.ctx); err != nil {
		r.log.Warn("retry of pending teardowns failed", "error", err)
		return err
	}
	return nil
}
