// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

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
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/netns"
)

// bandwidthConfig is the configuration of the bandwidth plugin.
type bandwidthConfig struct {
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

// bandwidthCapability is the capability "bandwidth".
type bandwidthCapability struct {
	IngressRate  uint64 `json:"ingressRate"`
	IngressBurst uint64 `json:"ingressBurst"`
	EgressRate   uint64 `json:"egressRate"`
	EgressBurst  uint64 `json:"egressBurst"`
}

// limit is a limit of the rate in bits per second, with bursts of so many bits. The zero
// value is none.
type limit struct{ rate, burst uint64 }

// parseBandwidth returns the configuration with the limits: those of the capability count if
// it has none.
func parseBandwidth(c *call) (*bandwidthConfig, error) {
	if err := c.requireVersion("0.3.0"); err != nil {
		return nil, err
	}
	conf := &bandwidthConfig{}
	if err := json.Unmarshal(c.config, conf); err != nil {
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

func (conf *bandwidthConfig) unlimited() bool {
	return conf.ingress == limit{} && conf.egress == limit{}
}

// bandwidthDevice is the name of the link through which the attachment's packets leave if
// their rate is limited.
func bandwidthDevice(c *call) string {
	return utils.MustFormatHashWithPrefix(links.MaxNameLength, "bwp", c.network+c.containerID)
}

// presentDevice is the name that this link has now: an operator may have given it another one.
func presentDevice(c *call, result *current.Result) (string, error) {
	name := bandwidthDevice(c)
	if result == nil {
		return name, nil
	}
	made := find(result, name, "")
	if made == nil {
		return name, nil
	}
	present, err := netns.FindLink(name, "ifb", made.Mac)
	return cmp.Or(present, name), err
}

func addBandwidth(c *call) (*current.Result, error) {
	conf, result, err := loadBandwidth(c)
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
	device, err := conf.limitEgress(host, bandwidthDevice(c))
	if err != nil {
		return nil, err
	}
	result.Interfaces = append(result.Interfaces, &current.Interface{Name: device.Attrs().Name, Mac: device.Attrs().HardwareAddr.String()})
	return result, nil
}

// bandwidth returns the configuration and the result of the plugin before.
func loadBandwidth(c *call) (*bandwidthConfig, *current.Result, error) {
	conf, err := parseBandwidth(c)
	if err != nil {
		return nil, nil, err
	}
	result, err := c.prevResult()
	if err == nil && result == nil {
		err = errors.New("must be called as chained plugin")
	}
	return conf, result, err
}

// hostLink returns the host's end of the veth pair, which the result has.
func hostLink(c *call, result *current.Result) (netlink.Link, error) {
	if len(result.Interfaces) == 0 {
		return nil, errors.New("no interfaces provided")
	}
	var peer int
	err := within.Path(c.netns, func(ns.NetNS) (err error) {
		_, peer, err = ip.GetVethPeerIfindex(c.ifName)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("container interface %s has no veth peer: %w", c.ifName, err)
	}
	link, err := netlink.LinkByIndex(peer)
	if err != nil {
		return nil, fmt.Errorf("veth peer with index %d is not in host ns", peer)
	}
	if find(result, link.Attrs().Name, "") == nil {
		return nil, errors.New("no veth peer of container interface found in host ns")
	}
	return link, nil
}

// limitEgress makes a device through which all packets go that the host's end of the
// attachment gets.
func (conf *bandwidthConfig) limitEgress(host netlink.Link, name string) (netlink.Link, error) {
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

func checkBandwidth(c *call) error {
	conf, result, err := loadBandwidth(c)
	if err != nil {
		return err
	}
	host, err := hostLink(c, result)
	if err != nil {
		return err
	}
	if conf.ingress != (limit{}) {
		if err := conf.ingress.check(host); err != nil {
			return err
		}
	}
	if conf.egress == (limit{}) {
		return nil
	}
	name, err := presentDevice(c, result)
	if err != nil {
		return err
	}
	device, err := netlinksafe.LinkByName(name)
	if err != nil {
		return fmt.Errorf("get ifb device: %w", err)
	}
	return conf.egress.check(device)
}

// delBandwidth removes the device; the rest goes with the attachment's links.
func delBandwidth(c *call) error {
	if _, err := parseBandwidth(c); err != nil {
		return err
	}
	result, _ := c.prevResult() // without one the device has its first name
	name, err := presentDevice(c, result)
	c.changes.removeLink(hostNamespace, name)
	return err
}
