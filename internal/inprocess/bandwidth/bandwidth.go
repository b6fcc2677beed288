// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package bandwidth is the plugin bandwidth, which limits the rate of the interface.
package bandwidth

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ip"
	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/containernetworking/plugins/pkg/utils"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/netns"
)

// Type is the bandwidth plugin.
var Type = plugin.Type{
	Config: func() any { return &config{} },
	Add:    add, Del: del, Repair: repair,
}

// config is the configuration of the bandwidth plugin.
type config struct {
	types.NetConf
	IngressRate   *uint64 `json:"ingressRate"`
	IngressBurst  *uint64 `json:"ingressBurst"`
	EgressRate    *uint64 `json:"egressRate"`
	EgressBurst   *uint64 `json:"egressBurst"`
	RuntimeConfig struct {
		Bandwidth bandwidthCapability `json:"bandwidth"`
	} `json:"runtimeConfig"`

	// ingress and egress are the limits that count, as the allocation sees them.
	ingress, egress limit
}

type bandwidthCapability struct {
	IngressRate  uint64 `json:"ingressRate"`
	IngressBurst uint64 `json:"ingressBurst"`
	EgressRate   uint64 `json:"egressRate"`
	EgressBurst  uint64 `json:"egressBurst"`
}

// limit is a limit of the rate in bits per second, with bursts of so many bits. The zero
// value is none.
type limit struct{ rate, burst uint64 }

// parse returns the configuration with the limits: those of the capability count if
// it has none.
func parse(c *plugin.Call) (*config, error) {
	if err := c.RequireVersion("0.3.0"); err != nil {
		return nil, err
	}
	conf := &config{}
	if err := json.Unmarshal(c.Config, conf); err != nil {
		return nil, fmt.Errorf("failed to parse network configuration: %w", err)
	}
	asked := conf.RuntimeConfig.Bandwidth
	conf.ingress, conf.egress = limit{asked.IngressRate, asked.IngressBurst}, limit{asked.EgressRate, asked.EgressBurst}
	if conf.IngressRate != nil || conf.IngressBurst != nil || conf.EgressRate != nil || conf.EgressBurst != nil {
		conf.ingress = limit{orZero(conf.IngressRate), orZero(conf.IngressBurst)}
		conf.egress = limit{orZero(conf.EgressRate), orZero(conf.EgressBurst)}
	}
	for _, l := range []limit{conf.ingress, conf.egress} {
		if err := l.validate(); err != nil {
			return nil, err
		}
	}
	return conf, nil
}

func orZero(value *uint64) uint64 {
	if value == nil {
		return 0
	}
	return *value
}

func (l limit) validate() error {
	switch {
	case l.burst == 0 && l.rate != 0:
		return errors.New("if rate is set, burst must also be set")
	case l.rate == 0 && l.burst != 0:
		return errors.New("if burst is set, rate must also be set")
	case l.burst/8 >= math.MaxUint32:
		return errors.New("burst cannot be more than 4GB")
	}
	return nil
}

// fits refuses a limit that would drop packets of an MTU, or that the kernel cannot count: see tc-tbf(8).
func (l limit) fits(mtu int) error {
	const header, longest, most = 22, 270, 100_000_000_000 // bytes, seconds, bits per second
	least := 8 * uint64(mtu+header)
	switch {
	case l == limit{}:
		return nil
	case l.rate < 8 || l.rate > most:
		return invalid("rate is %d: want 8 to %d bits per second", l.rate, uint64(most))
	case l.burst < least:
		return invalid("burst is %d bits, and packets of an interface with MTU %d, which are larger, would be lost: want at least %d", l.burst, mtu, least)
	case l.burst/longest > l.rate:
		return invalid("burst is %d bits: want at most %d seconds of the rate, which is %d bits per second", l.burst, longest, l.rate)
	}
	return nil
}

// invalid is a mistake in the configuration, which no attempt can change.
func invalid(format string, a ...any) error {
	return types.NewError(types.ErrInvalidNetworkConfig, fmt.Sprintf(format, a...), "")
}

func (conf *config) unlimited() bool {
	return conf.ingress == limit{} && conf.egress == limit{}
}

// deviceOf is the name of the link through which the attachment's packets leave if
// their rate is limited.
func deviceOf(c *plugin.Call) string {
	return utils.MustFormatHashWithPrefix(links.MaxNameLength, "bwp", c.Network+c.ContainerID)
}

// presentDevice is the name that this link has now: an operator may have given it another one.
func presentDevice(c *plugin.Call, result *current.Result) (string, error) {
	name := deviceOf(c)
	if result == nil {
		return name, nil
	}
	made := plugin.Find(result, name, "")
	if made == nil {
		return name, nil
	}
	present, err := netns.FindLink(name, "ifb", made.Mac)
	return cmp.Or(present, name), err
}

func add(c *plugin.Call) (*current.Result, error) {
	conf, result, err := load(c)
	if err != nil || conf.unlimited() {
		return result, err
	}
	host, err := hostLink(c, result)
	if err != nil {
		return nil, err
	}
	for _, l := range []limit{conf.ingress, conf.egress} {
		if err := l.fits(host.Attrs().MTU); err != nil {
			return nil, err
		}
	}
	if conf.ingress != (limit{}) {
		if err := conf.ingress.apply(host.Attrs().Index); err != nil {
			return nil, err
		}
	}
	if conf.egress == (limit{}) {
		return result, nil
	}
	device, err := conf.limitEgress(host, deviceOf(c))
	if err != nil {
		return nil, err
	}
	result.Interfaces = append(result.Interfaces, &current.Interface{Name: device.Attrs().Name, Mac: device.Attrs().HardwareAddr.String()})
	return result, nil
}

func load(c *plugin.Call) (*config, *current.Result, error) {
	conf, err := parse(c)
	if err != nil {
		return nil, nil, err
	}
	result, err := c.PrevResult()
	if err == nil && result == nil {
		err = errors.New("must be called as chained plugin")
	}
	return conf, result, err
}

// hostLink returns the host's end of the veth pair, which the result has.
func hostLink(c *plugin.Call, result *current.Result) (netlink.Link, error) {
	if len(result.Interfaces) == 0 {
		return nil, errors.New("no interfaces provided")
	}
	var peer int
	err := within.Path(c.Netns, func(ns.NetNS) (err error) {
		_, peer, err = ip.GetVethPeerIfindex(c.IfName)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("container interface %s has no veth peer: %w", c.IfName, err)
	}
	link, err := netlink.LinkByIndex(peer)
	if err != nil {
		return nil, fmt.Errorf("veth peer with index %d is not in host ns", peer)
	}
	if plugin.Find(result, link.Attrs().Name, "") == nil {
		return nil, errors.New("no veth peer of container interface found in host ns")
	}
	return link, nil
}

// limitEgress makes a device through which all packets go that the host's end of the
// attachment gets.
func (conf *config) limitEgress(host netlink.Link, name string) (netlink.Link, error) {
	// Without a length of the queue, as in the reference plugin.
	attrs := netlink.LinkAttrs{Name: name, Flags: net.FlagUp, MTU: host.Attrs().MTU, HardwareAddr: links.NewMAC()}
	if err := netlink.LinkAdd(&netlink.Ifb{LinkAttrs: attrs}); err != nil {
		return nil, fmt.Errorf("adding link: %w", err)
	}
	device, err := netlinksafe.LinkByName(name)
	if err != nil {
		return nil, err
	}
	if err := redirect(host.Attrs().Index, device.Attrs().Index); err != nil {
		return nil, err
	}
	return device, conf.egress.apply(device.Attrs().Index)
}

// del removes the device; the rest goes with the attachment's links.
func del(c *plugin.Call) error {
	if _, err := parse(c); err != nil {
		return err
	}
	result, _ := c.PrevResult() // without one the device has its first name
	name, err := presentDevice(c, result)
	c.Changes.RemoveLink(plugin.HostNamespace, name)
	return err
}
