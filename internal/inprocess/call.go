// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// call is one call of a plugin; see the CNI specification 1.1.0, section 2.
type call struct {
	ctx         context.Context
	verb        string
	containerID string
	netns       string
	ifName      string
	args        string
	// path has the plugin directories.
	path string
	// version is cniVersion of the configuration.
	version string
	// network is the name of the network.
	network string
	// config is the plugin's configuration.
	config []byte
	// changes are those of the chain so far.
	changes *Changes
	sysctls sysctl.Tree
	// connect is that of the chain.
	connect Connect
	// repair is that of the chain.
	repair *remedy.Repair
}

// newCall reads a call from a plugin's environment and input. Errors are *types.Error
// with the codes that the reference plugins give.
func newCall(ctx context.Context, stdin []byte, environ []string) (*call, error) {
	c := &call{ctx: ctx, config: stdin}
	c.read(environ)
	if c.verb == "VERSION" {
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
	c.network, c.version = conf.Name, conf.CNIVersion
	if c.version == "" {
		c.version = "0.1.0"
	}
	if err := c.requireVersion("0.1.0"); err != nil {
		return nil, err
	}
	return c, c.refuseOwnNamespace()
}

// requireVersion refuses configurations of versions of the specification that the plugin does
// not support: it has the first one and all after it.
func (c *call) requireVersion(first string) error {
	if err := (&version.Reconciler{}).Check(c.version, version.VersionsStartingFrom(first)); err != nil {
		return types.NewError(types.ErrIncompatibleCNIVersion, "incompatible CNI versions", err.Details())
	}
	return nil
}

func (c *call) read(environ []string) {
	for _, pair := range environ { // the last one counts
		name, value, _ := strings.Cut(pair, "=")
		switch name {
		case "CNI_COMMAND":
			c.verb = value
		case "CNI_CONTAINERID":
			c.containerID = value
		case "CNI_NETNS":
			c.netns = value
		case "CNI_IFNAME":
			c.ifName = value
		case "CNI_ARGS":
			c.args = value
		case "CNI_PATH":
			c.path = value
		}
	}
}

// validate checks the variables that the verb needs.
func (c *call) validate() error {
	attachment := c.verb == "ADD" || c.verb == "DEL" || c.verb == "CHECK"
	if !attachment {
		return nil
	}
	var missing []string
	if c.containerID == "" {
		missing = append(missing, "CNI_CONTAINERID")
	} else if err := utils.ValidateContainerID(c.containerID); err != nil {
		return err
	}
	if c.netns == "" && c.verb != "DEL" {
		missing = append(missing, "CNI_NETNS")
	}
	if c.ifName == "" {
		missing = append(missing, "CNI_IFNAME")
	} else if err := utils.ValidateInterfaceName(c.ifName); err != nil {
		return err
	}
	if len(missing) > 0 {
		return types.NewError(types.ErrInvalidEnvironmentVariables, fmt.Sprintf("required env variables [%s] missing", strings.Join(missing, ",")), "")
	}
	return nil
}

// refuseOwnNamespace refuses this process' own namespace as that of the allocation, before
// anything is made in it.
func (c *call) refuseOwnNamespace() error {
	if c.verb != "ADD" && c.verb != "DEL" {
		return nil
	}
	own, err := cnins.CheckNetNS(c.netns)
	if err != nil {
		return err
	}
	if own {
		return types.NewError(types.ErrInvalidNetNS, "plugin's netns and netns from CNI_NETNS should not be the same", "")
	}
	return nil
}

// prevResult returns the result of the plugin before in the chain, of any version; nil if
// there is none.
func (c *call) prevResult() (*current.Result, error) {
	conf := types.NetConf{}
	if err := json.Unmarshal(c.config, &conf); err != nil {
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

// requirePrevResult returns the result of the plugin before, which there has to be.
func (c *call) requirePrevResult() (*current.Result, error) {
	result, err := c.prevResult()
	if err == nil && result == nil {
		err = errors.New("Required prevResult missing") //nolint:staticcheck // the reference plugins' text
	}
	return result, err
}

// inNamespace runs f in the namespace of the attachment, unless it is gone.
func (c *call) inNamespace(f func() error) error {
	if c.netns == "" {
		return nil
	}
	err := within.Path(c.netns, func(ns.NetNS) error { return f() })
	var gone ns.NSPathNotExistErr
	if errors.As(err, &gone) {
		return nil
	}
	return err
}
