// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"

	cnins "github.com/containernetworking/cni/pkg/ns"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/utils"
	"github.com/containernetworking/cni/pkg/version"
	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/sysctl"
)

// Call is one call of a plugin; see the CNI specification 1.1.0, section 2.
type Call struct {
	Ctx         context.Context
	Verb        string
	ContainerID string
	Netns       string
	IfName      string
	Args        string
	// Path has the plugin directories.
	Path string
	// Version is cniVersion of the configuration.
	Version string
	// Network is the name of the network.
	Network string
	// Config is the plugin's configuration.
	Config []byte
	// Changes are those of the chain so far.
	Changes *Changes
	Sysctls sysctl.Tree
	// IPAM returns the IPAM plugin of a type, and whether it is executed in process.
	IPAM func(name string) (Type, bool)
	// Repair is that of the chain.
	Repair *remedy.Repair
	// IPv6Off is whether interfaces are made without IPv6.
	IPv6Off bool
	// Isolation keeps the attachment apart; nil: nothing does.
	Isolation *Isolation
	// Lease keeps its lease of DHCP; nil: nothing does.
	Lease *Lease
}

// NewCall reads a call from a plugin's environment and input. Errors are *types.Error
// with the codes that the reference plugins give.
func NewCall(ctx context.Context, stdin []byte, environ []string) (*Call, error) {
	c := &Call{Ctx: ctx, Config: stdin}
	c.read(environ)
	if c.Verb == "VERSION" {
		return c, nil
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	var conf struct{ Name, CNIVersion string }
	if err := json.Unmarshal(stdin, &conf); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, fmt.Sprintf("error unmarshall network config: %v", err), "")
	}
	if conf.Name == "" {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, "missing network name", "")
	}
	if err := utils.ValidateNetworkName(conf.Name); err != nil {
		return nil, err
	}
	c.Network, c.Version = conf.Name, conf.CNIVersion
	if c.Version == "" {
		c.Version = "0.1.0"
	}
	if err := c.RequireVersion("0.1.0"); err != nil {
		return nil, err
	}
	return c, c.refuseOwnNamespace()
}

// RequireVersion refuses configurations of versions of the specification that the plugin does
// not support: it has the first one and all after it.
func (c *Call) RequireVersion(first string) error {
	if err := (&version.Reconciler{}).Check(c.Version, version.VersionsStartingFrom(first)); err != nil {
		return types.NewError(types.ErrIncompatibleCNIVersion, "incompatible CNI versions", err.Details())
	}
	return nil
}

func (c *Call) read(environ []string) {
	for _, pair := range environ { // the last one counts
		name, value, _ := strings.Cut(pair, "=")
		switch name {
		case "CNI_COMMAND":
			c.Verb = value
		case "CNI_CONTAINERID":
			c.ContainerID = value
		case "CNI_NETNS":
			c.Netns = value
		case "CNI_IFNAME":
			c.IfName = value
		case "CNI_ARGS":
			c.Args = value
		case "CNI_PATH":
			c.Path = value
		}
	}
}

// validate checks the variables that the verb needs.
func (c *Call) validate() error {
	if c.Verb != "ADD" && c.Verb != "DEL" && c.Verb != "CHECK" {
		return nil
	}
	var missing []string
	if c.ContainerID == "" {
		missing = append(missing, "CNI_CONTAINERID")
	} else if err := utils.ValidateContainerID(c.ContainerID); err != nil {
		return err
	}
	if c.Netns == "" && c.Verb != "DEL" {
		missing = append(missing, "CNI_NETNS")
	}
	if c.IfName == "" {
		missing = append(missing, "CNI_IFNAME")
	} else if err := utils.ValidateInterfaceName(c.IfName); err != nil {
		return err
	}
	if len(missing) > 0 {
		return types.NewError(types.ErrInvalidEnvironmentVariables, fmt.Sprintf("required env variables [%s] missing", strings.Join(missing, ",")), "")
	}
	return nil
}

// refuseOwnNamespace refuses this process' own namespace as that of the allocation, before
// anything is made in it.
func (c *Call) refuseOwnNamespace() error {
	if c.Verb != "ADD" && c.Verb != "DEL" {
		return nil
	}
	own, err := cnins.CheckNetNS(c.Netns)
	if err != nil {
		return err
	}
	if own {
		return types.NewError(types.ErrInvalidNetNS, "plugin's netns and netns from CNI_NETNS should not be the same", "")
	}
	return nil
}

// Load decodes the plugin's configuration.
func (c *Call) Load(conf any) error {
	if err := json.Unmarshal(c.Config, conf); err != nil {
		return fmt.Errorf("failed to load netconf: %w", err)
	}
	return nil
}

// PrevResult returns the result of the plugin before in the chain, of any version; nil if
// there is none.
func (c *Call) PrevResult() (*current.Result, error) {
	conf := types.NetConf{}
	if err := json.Unmarshal(c.Config, &conf); err != nil {
		return nil, fmt.Errorf("failed to parse network configuration: %w", err)
	}
	if conf.RawPrevResult == nil {
		return nil, nil
	}
	if err := version.ParsePrevResult(&conf); err != nil {
		return nil, fmt.Errorf("could not parse prevResult: %w", err)
	}
	return current.NewResultFromResult(conf.PrevResult)
}

// RequirePrevResult returns the result of the plugin before, which there has to be.
func (c *Call) RequirePrevResult() (*current.Result, error) {
	result, err := c.PrevResult()
	if err == nil && result == nil {
		err = errors.New("Required prevResult missing") //nolint:staticcheck // the reference plugins' text
	}
	return result, err
}

// InNamespace runs f in the namespace of the attachment, unless it is gone.
func (c *Call) InNamespace(f func() error) error {
	if c.Netns == "" {
		return nil
	}
	return unlessGone(within.Path(c.Netns, func(ns.NetNS) error { return f() }))
}

// unlessGone is the error, unless it is that of a namespace that is gone.
func unlessGone(err error) error {
	if _, gone := errors.AsType[ns.NSPathNotExistErr](err); gone {
		return nil
	}
	return err
}

// Find returns the interface of a result with that name and sandbox; nil if there is none.
func Find(result *current.Result, name, sandbox string) *current.Interface {
	for _, i := range result.Interfaces {
		if i.Name == name && i.Sandbox == sandbox {
			return i
		}
	}
	return nil
}

// Networks returns the addresses of a result.
func Networks(result *current.Result) []net.IPNet {
	all := make([]net.IPNet, len(result.IPs))
	for i, address := range result.IPs {
		all[i] = address.Address
	}
	return all
}

// Encode returns a result in the version that the network's configuration asks for.
func Encode(result *current.Result, cniVersion string) ([]byte, error) {
	converted, err := result.GetAsVersion(cniVersion)
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(converted, "", "    ")
}
