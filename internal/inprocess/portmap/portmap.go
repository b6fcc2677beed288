// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package portmap is the plugin portmap, which publishes ports of the allocation on the host.
package portmap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/rules"
	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/sysctl"
)

// Type is the portmap plugin.
var Type = plugin.Type{
	Config: func() any { return &config{} },
	Add:    add, Del: del, Repair: repair, Understands: understands,
}

// config is the configuration of the portmap plugin.
type config struct {
	types.NetConf
	Backend              *string   `json:"backend"`
	SNAT                 *bool     `json:"snat"`
	ConditionsV4         *[]string `json:"conditionsV4"`
	ConditionsV6         *[]string `json:"conditionsV6"`
	MasqAll              bool      `json:"masqAll"`
	MarkMasqBit          *int      `json:"markMasqBit"`
	ExternalSetMarkChain *string   `json:"externalSetMarkChain"`
	PublishAddress       *floating `json:"publishAddress"`
	RuntimeConfig        struct {
		PortMappings []mapping `json:"portMappings"`
	} `json:"runtimeConfig"`

	network, containerID string
	// addresses are the attachment's, one of each family at most, IPv4 first.
	addresses []net.IPNet
}

// mapping is an element of the capability portMappings.
type mapping struct {
	HostPort      int    `json:"hostPort"`
	ContainerPort int    `json:"containerPort"`
	Protocol      string `json:"protocol"`
	HostIP        string `json:"hostIP"`
	// LastHostPort is the last port of a range from HostPort on, which is mapped to the same ports. 0: HostPort alone is mapped.
	LastHostPort int `json:"lastHostPort"`
}

// last is the last port of the host that is mapped.
func (m mapping) last() int { return max(m.HostPort, m.LastHostPort) }

func (m mapping) isRange() bool { return m.last() != m.HostPort }

func (m mapping) has(port uint16) bool { return m.HostPort <= int(port) && int(port) <= m.last() }

// defaultMarkBit is the bit of the mark of packets to masquerade.
const defaultMarkBit = 13

func parse(c *plugin.Call) (*config, *current.Result, error) {
	conf := &config{network: c.Network, containerID: c.ContainerID}
	if err := json.Unmarshal(c.Config, conf); err != nil {
		return nil, nil, fmt.Errorf("failed to parse network configuration: %w", err)
	}
	result, err := c.PrevResult()
	if err != nil {
		return nil, nil, err
	}
	if c.Verb != "ADD" && conf.Backend == nil && len(conf.optionsOf(rules.BackendIPTables)) > 0 {
		made := rules.BackendIPTables // ADD refuses them with the other, whatever the host has now
		conf.Backend = &made
	}
	if err := conf.complete(c.Ctx, c.Changes.Rules.Kind); err != nil {
		return nil, nil, err
	}
	for _, mapping := range conf.RuntimeConfig.PortMappings {
		if mapping.ContainerPort <= 0 {
			return nil, nil, fmt.Errorf("Invalid container port number: %d", mapping.ContainerPort) //nolint:staticcheck // the reference plugin's text
		}
		if mapping.HostPort <= 0 {
			return nil, nil, fmt.Errorf("Invalid host port number: %d", mapping.HostPort) //nolint:staticcheck // the reference plugin's text
		}
		if mapping.isRange() && mapping.ContainerPort != mapping.HostPort {
			return nil, nil, fmt.Errorf("host ports %d-%d are mapped to ports from %d on: want a range to be mapped to the same ports", mapping.HostPort, mapping.last(), mapping.ContainerPort)
		}
	}
	if result != nil {
		conf.addresses = sandboxAddresses(result, c.IfName)
	}
	return conf, result, nil
}

// complete sets defaults, and refuses what contradicts itself.
func (conf *config) complete(ctx context.Context, kind rules.Kind) error {
	if conf.MarkMasqBit != nil && conf.ExternalSetMarkChain != nil {
		return errors.New("Cannot specify externalSetMarkChain and markMasqBit") //nolint:staticcheck // the reference plugin's text
	}
	bit := defaultMarkBit
	if conf.MarkMasqBit == nil {
		conf.MarkMasqBit = &bit
	}
	if *conf.MarkMasqBit < 0 || *conf.MarkMasqBit > 31 {
		return errors.New("MasqMarkBit must be between 0 and 31")
	}
	chosen := rules.Backend(ctx, conf.Backend, kind)
	conf.Backend = &chosen
	other := rules.BackendIPTables
	if chosen == rules.BackendIPTables {
		other = rules.BackendNFTables
	}
	if options := conf.optionsOf(other); len(options) > 0 {
		return fmt.Errorf("%s backend was requested but configuration contains %s-specific options %v", chosen, other, options)
	}
	if chosen != rules.BackendIPTables && chosen != rules.BackendNFTables {
		return fmt.Errorf("unrecognized backend %q", chosen)
	}
	return nil
}

// optionsOf returns the keys that only one backend has.
func (conf *config) optionsOf(name string) []string {
	var options []string
	if conf.ExternalSetMarkChain != nil && name == rules.BackendIPTables {
		options = append(options, "externalSetMarkChain")
	}
	if conditionsBackend(conf.ConditionsV4) == name {
		options = append(options, "conditionsV4")
	}
	if conditionsBackend(conf.ConditionsV6) == name {
		options = append(options, "conditionsV6")
	}
	return options
}

// conditionsBackend returns the backend that conditions are written for, empty if there are
// none: those of iptables begin with an option or with its negation.
func conditionsBackend(conditions *[]string) string {
	if conditions == nil || len(*conditions) == 0 || (*conditions)[0] == "" {
		return ""
	}
	if strings.HasPrefix((*conditions)[0], "-") || strings.HasPrefix((*conditions)[0], "!") {
		return rules.BackendIPTables
	}
	return rules.BackendNFTables
}

// understands refuses conditions in the syntax of nft, which only nft reads, and those
// that iptables-restore cannot read.
func understands(data []byte) error {
	conf := &config{}
	if err := json.Unmarshal(data, conf); err != nil {
		return err
	}
	for name, conditions := range map[string]*[]string{"conditionsV4": conf.ConditionsV4, "conditionsV6": conf.ConditionsV6} {
		if conditions == nil {
			continue
		}
		some := slices.ContainsFunc(*conditions, func(word string) bool { return word != "" })
		if some && rules.Backend(context.Background(), conf.Backend, "") == rules.BackendNFTables {
			return fmt.Errorf("%s is in the syntax of nft", name)
		}
		if slices.ContainsFunc(*conditions, func(word string) bool { return strings.ContainsAny(word, netfilter.Unreadable) }) {
			return fmt.Errorf("%s has a line break", name)
		}
	}
	return nil
}

func (conf *config) snat() bool { return conf.SNAT == nil || *conf.SNAT }

func (conf *config) conditions(ip net.IP) []string {
	conditions := conf.ConditionsV6
	if links.IsIPv4(ip) {
		conditions = conf.ConditionsV4
	}
	if conditions == nil {
		return nil
	}
	return *conditions
}

// sandboxAddresses returns the first address of each family of the interface inside, IPv4
// first. Addresses without an interface count.
func sandboxAddresses(result *current.Result, ifName string) []net.IPNet {
	var v4, v6 []net.IPNet
	for _, address := range result.IPs {
		if i := address.Interface; i != nil && *i >= 0 && *i < len(result.Interfaces) {
			if other := result.Interfaces[*i]; other == nil || other.Name != ifName || other.Sandbox == "" {
				continue
			}
		}
		switch {
		case address.Address.IP == nil:
		case links.IsIPv4(address.Address.IP):
			v4 = append(v4, address.Address)
		default:
			v6 = append(v6, address.Address)
		}
	}
	return slices.Concat(v4[:min(len(v4), 1)], v6[:min(len(v6), 1)])
}

func add(c *plugin.Call) (*current.Result, error) {
	conf, result, err := parse(c)
	if err != nil {
		return nil, fmt.Errorf("failed to parse config: %w", err)
	}
	if result == nil {
		return nil, errors.New("must be called as chained plugin")
	}
	if len(conf.RuntimeConfig.PortMappings) == 0 {
		return result, nil
	}
	if f := conf.PublishAddress; f != nil {
		if err := f.acquire(c.Ctx, c); err != nil {
			return nil, err
		}
	}
	routesLocalnet := conf.routesLocalnet()
	if routesLocalnet {
		c.Changes.Rules.Add(guardRules())
	}
	for _, address := range conf.addresses {
		r, err := conf.rules(address)
		if err != nil {
			return nil, err
		}
		c.Changes.Rules.Add(r)
		c.Changes.After = append(c.Changes.After, func() error { return conf.published(c.Ctx, address.IP, routesLocalnet) })
	}
	if f := conf.PublishAddress; f != nil { // until then no host answers at the addresses
		c.Changes.After = append(c.Changes.After, f.publish)
	}
	return result, nil
}

// published completes what the rules of an address need. Stale flows are no error, as in the
// reference plugin.
func (conf *config) published(ctx context.Context, ip net.IP, routesLocalnet bool) error {
	_ = conf.forgetFlows(ctx, links.IsIPv4(ip))
	if !links.IsIPv4(ip) || !routesLocalnet {
		return nil
	}
	if err := routeLocalnet(ip); err != nil {
		return fmt.Errorf("unable to enable route_localnet: %w", err)
	}
	return nil
}

func (conf *config) rules(address net.IPNet) (rules.Change, error) {
	if *conf.Backend == rules.BackendNFTables {
		r, err := conf.nftables(address)
		return rules.Change{NFTables: r}, err
	}
	return rules.Change{IPTables: conf.iptables(address)}, nil
}

// applies tells whether a mapping is one for the family of an address. The reference plugin
// takes a host IP that is none for one of IPv6.
func (m mapping) applies(ip net.IP) bool {
	return m.HostIP == "" || links.IsIPv4(net.ParseIP(m.HostIP)) == links.IsIPv4(ip)
}

// bound tells whether a mapping is only for connections to its host IP.
func (m mapping) bound() bool {
	return m.HostIP != "" && !net.ParseIP(m.HostIP).IsUnspecified()
}

// routeLocalnet lets connections from 127.0.0.0/8 leave by the link that leads to an address.
// No route is no error, as in the reference plugin.
func routeLocalnet(ip net.IP) error {
	name := linkTo(ip)
	if name == "" {
		return nil
	}
	var sysctls sysctl.Tree
	return sysctls.Set(routeLocalnetKey(name), "1")
}

func routeLocalnetKey(link string) string { return "net/ipv4/conf/" + link + "/route_localnet" }

// routesAllLocalnet tells whether the host lets connections from 127.0.0.0/8 leave by all links: the kernel takes
// this value or that of the link, and other programs, such as kube-proxy, set it.
func routesAllLocalnet(get func(key string) (string, error)) bool {
	value, err := get(routeLocalnetKey("all"))
	return err == nil && value != "0"
}

// linkTo returns the name of the link that leads to an address; empty if none does.
func linkTo(ip net.IP) string {
	routes, err := netlink.RouteGet(ip)
	if err != nil {
		return ""
	}
	for _, route := range routes {
		if link, err := netlink.LinkByIndex(route.LinkIndex); err == nil {
			return link.Attrs().Name
		}
	}
	return ""
}

func del(c *plugin.Call) error {
	conf, _, err := parse(c)
	if err != nil {
		return fmt.Errorf("failed to parse config: %w", err)
	}
	if len(conf.RuntimeConfig.PortMappings) == 0 {
		return nil
	}
	// Both families: the addresses may be unknown.
	for _, address := range []net.IPNet{{IP: net.IPv4zero}, {IP: net.IPv6zero}} {
		removal := rules.Change{Remove: true}
		if *conf.Backend == rules.BackendNFTables {
			removal.NFTables = conf.nftablesOf(address.IP)
		} else {
			removal.IPTables = conf.iptablesCalls(address.IP)
		}
		c.Changes.Rules.Add(removal)
	}
	if f := conf.PublishAddress; f != nil {
		call, err := f.call(c.Ctx, c)
		if err == nil {
			call.ReleaseIPAMLater(ownIPAM)
		}
		return err
	}
	return nil
}

// repair leaves the rules of published ports to be added where they are missing.
func repair(c *plugin.Call) error {
	conf, result, err := parse(c)
	if err != nil || result == nil || len(conf.RuntimeConfig.PortMappings) == 0 {
		return err
	}
	if f := conf.PublishAddress; f != nil {
		if err := f.repair(c); err != nil {
			return err
		}
	}
	routesLocalnet := conf.routesLocalnet()
	if routesLocalnet {
		c.Changes.Rules.Add(guardRules())
	}
	for _, address := range conf.addresses {
		r, err := conf.rules(address)
		if err != nil {
			return err
		}
		c.Changes.Rules.Add(r)
		c.Changes.Rules.Translations = append(c.Changes.Rules.Translations, publication{address.IP, conf.RuntimeConfig.PortMappings})
		if !links.IsIPv4(address.IP) || !routesLocalnet || routesAllLocalnet(c.Sysctls.Get) {
			continue
		}
		// Without a route of its own the address is reached by another link, where packets
		// from 127.0.0.0/8 must not leave.
		if link := linkTo(address.IP); link != "" && plugin.Find(result, link, "") != nil {
			if err := c.EnsureSysctl(routeLocalnetKey(link), "1"); err != nil {
				return err
			}
		}
	}
	return nil
}
