// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package tuning is the plugin tuning: parameters of the kernel and settings of the interface.
package tuning

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/sysctl"
)

// Type is the tuning plugin.
var Type = plugin.Type{
	Config: func() any { return &config{} },
	Add:    add, Del: del, Repair: repair,
}

// config is the configuration of the tuning plugin.
type config struct {
	types.NetConf
	DataDir  string            `json:"dataDir"`
	Sysctl   map[string]string `json:"sysctl"`
	MAC      string            `json:"mac"`
	Promisc  bool              `json:"promisc"`
	MTU      int               `json:"mtu"`
	TxQLen   *int              `json:"txQLen"`
	Allmulti *bool             `json:"allmulti"`

	RuntimeConfig plugin.MACCapability `json:"runtimeConfig"`
	Args          struct {
		CNI tuningArgs `json:"cni"`
	} `json:"args"`
}

// tuningArgs are the settings that the key "args" replaces.
type tuningArgs struct {
	Sysctl   map[string]string `json:"sysctl"`
	MAC      *string           `json:"mac"`
	Promisc  *bool             `json:"promisc"`
	MTU      *int              `json:"mtu"`
	TxQLen   *int              `json:"txQLen"`
	Allmulti *bool             `json:"allmulti"`
}

// parse returns the configuration with the settings that the call asks for: those of
// its args come before the capability, and that before CNI_ARGS.
func parse(c *plugin.Call) (*config, error) {
	conf := &config{}
	if err := c.Load(conf); err != nil {
		return nil, err
	}
	if conf.DataDir == "" {
		conf.DataDir = "/run/cni/tuning"
	}
	mac, err := plugin.RequestedMAC(c.Args, plugin.MACArgs{}, conf.RuntimeConfig)
	if err != nil {
		return nil, err
	}
	if mac != "" {
		conf.MAC = mac
	}
	return conf, conf.replace(conf.Args.CNI)
}

func (conf *config) replace(args tuningArgs) error {
	if len(args.Sysctl) > 0 && conf.Sysctl == nil {
		return errors.New("args.cni.sysctl: the plugin's configuration must have sysctl, which may be {}")
	}
	maps.Copy(conf.Sysctl, args.Sysctl)
	if args.MAC != nil {
		conf.MAC = *args.MAC
	}
	if args.Promisc != nil {
		conf.Promisc = *args.Promisc
	}
	if args.MTU != nil {
		conf.MTU = *args.MTU
	}
	if args.Allmulti != nil {
		conf.Allmulti = args.Allmulti
	}
	if args.TxQLen != nil {
		conf.TxQLen = args.TxQLen
	}
	return nil
}

func (conf *config) link() linkSettings {
	s := linkSettings{MAC: conf.MAC, MTU: conf.MTU, Allmulti: conf.Allmulti, TxQLen: conf.TxQLen}
	if conf.Promisc {
		s.Promisc = &conf.Promisc
	}
	return s
}

func add(c *plugin.Call) (*current.Result, error) {
	if err := refuseDuplicateSysctls(c.Config); err != nil {
		return nil, err
	}
	conf, err := parse(c)
	if err != nil {
		return nil, err
	}
	if err := refuseUnlistedSysctls(conf.Sysctl); err != nil {
		return nil, err
	}
	result, err := c.RequirePrevResult()
	if err != nil {
		return nil, err
	}
	if err := within.Path(c.Netns, func(ns.NetNS) error { return conf.apply(c) }); err != nil {
		return nil, err
	}
	for _, i := range result.Interfaces {
		if i.Name == c.IfName && conf.MAC != "" {
			i.Mac = conf.MAC
		}
	}
	return result, nil
}

// apply makes the settings, those of the link after a backup of what it has.
func (conf *config) apply(c *plugin.Call) error {
	for _, key := range sysctl.InOrder(conf.Sysctl) {
		path, err := sysctl.Path(key, c.IfName)
		if err != nil {
			return err
		}
		if err := c.Sysctls.Set(path, conf.Sysctl[key]); err != nil {
			return fmt.Errorf("set sysctl %s to %q: %w", key, conf.Sysctl[key], err)
		}
	}
	settings := conf.link()
	if settings == (linkSettings{}) {
		return nil
	}
	link, err := netlinksafe.LinkByName(c.IfName)
	if err != nil {
		return fmt.Errorf("failed to get %q: %w", c.IfName, err)
	}
	if err := settings.of(link).backup(conf.backupPath(c)); err != nil {
		return err
	}
	return settings.apply(link)
}

// backupPath is the file that has the settings of the link as they were before ADD.
func (conf *config) backupPath(c *plugin.Call) string {
	return filepath.Join(conf.DataDir, c.ContainerID+"_"+c.IfName+".json")
}

// del restores the settings of the link as far as it can, as the reference plugin does, and removes their file. The plugin
// leaves the file of a link that is gone; nothing else would ever remove it, because DEL has succeeded.
func del(c *plugin.Call) error {
	conf, err := parse(c)
	if err != nil {
		return err
	}
	path := conf.backupPath(c)
	if settings, err := readLinkSettings(path); err == nil {
		_ = c.InNamespace(func() error {
			link, err := netlinksafe.LinkByName(c.IfName)
			if err == nil {
				settings.restore(link)
			}
			return err
		})
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
