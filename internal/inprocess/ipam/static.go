// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/allocnet/allocnet/internal/inprocess/plugin"
)

// Static is the IPAM plugin static.
var Static = plugin.Type{
	Config: func() any { return &staticConfig{} },
	Add:    addStatic, Del: func(*plugin.Call) error { return nil },
}

type staticConfig struct {
	Type      string          `json:"type"`
	Routes    []*types.Route  `json:"routes"`
	Addresses []staticAddress `json:"addresses"`
	DNS       types.DNS       `json:"dns"`
}

type staticAddress struct {
	Address string `json:"address"`
	Gateway net.IP `json:"gateway"`

	network *net.IPNet
}

// parseStatic returns the configuration with the addresses that the call asks for: those of
// the capability replace those of the configuration's args, and these all others. Those of
// CNI_ARGS are added to the configuration's.
func parseStatic(c *plugin.Call) (*staticConfig, error) {
	var conf struct {
		CNIVersion    string        `json:"cniVersion"`
		IPAM          *staticConfig `json:"ipam"`
		RuntimeConfig struct {
			IPs []string `json:"ips"`
		} `json:"runtimeConfig"`
		Args struct {
			CNI struct {
				IPs []string `json:"ips"`
			} `json:"cni"`
		} `json:"args"`
	}
	if err := json.Unmarshal(c.Config, &conf); err != nil {
		return nil, err
	}
	if conf.IPAM == nil {
		return nil, errors.New("IPAM config missing 'ipam' key")
	}
	if err := conf.IPAM.addEnvironment(c.Args); err != nil {
		return nil, err
	}
	for _, ips := range [][]string{conf.Args.CNI.IPs, conf.RuntimeConfig.IPs} {
		if err := conf.IPAM.replace(ips); err != nil {
			return nil, err
		}
	}
	return conf.IPAM, conf.IPAM.complete(conf.CNIVersion)
}

// addEnvironment adds the addresses of CNI_ARGS, and the gateways to the networks that have
// them.
func (conf *staticConfig) addEnvironment(args string) error {
	var env struct {
		types.CommonArgs
		IP      types.UnmarshallableString
		GATEWAY types.UnmarshallableString
	}
	if args == "" {
		return nil
	}
	if err := types.LoadArgs(args, &env); err != nil {
		return err
	}
	for _, text := range list(string(env.IP)) {
		network, err := types.ParseCIDR(text)
		if err != nil {
			return fmt.Errorf("the 'ip' field is expected to be in CIDR notation, got: '%s'", text)
		}
		conf.Addresses = append(conf.Addresses, staticAddress{network: network})
	}
	for _, text := range list(string(env.GATEWAY)) {
		gateway := net.ParseIP(text)
		if gateway == nil {
			return fmt.Errorf("invalid gateway address: %s", text)
		}
		for i, address := range conf.Addresses {
			if address.network != nil && address.network.Contains(gateway) { // those of CNI_ARGS
				conf.Addresses[i].Gateway = gateway
			}
		}
	}
	return nil
}

// list splits a list with commas; an empty text has no elements.
func list(text string) []string {
	if text == "" {
		return nil
	}
	elements := strings.Split(text, ",")
	for i, element := range elements {
		elements[i] = strings.TrimSpace(element)
	}
	return elements
}

// replace replaces the addresses by those of a list, if it has any.
func (conf *staticConfig) replace(ips []string) error {
	if len(ips) == 0 {
		return nil
	}
	conf.Addresses = nil
	for _, text := range ips {
		network, err := types.ParseCIDR(text)
		if err != nil {
			return fmt.Errorf("an entry in the 'ips' field is NOT in CIDR notation, got: '%s'", text)
		}
		conf.Addresses = append(conf.Addresses, staticAddress{network: network})
	}
	return nil
}

// complete parses the addresses that are texts still.
func (conf *staticConfig) complete(cniVersion string) error {
	number := map[bool]int{} // by whether the family is IPv4
	for i := range conf.Addresses {
		address := &conf.Addresses[i]
		if address.network == nil {
			network, err := types.ParseCIDR(address.Address)
			if err != nil {
				return fmt.Errorf("the 'address' field is expected to be in CIDR notation, got: '%s'", address.Address)
			}
			address.network = network
		}
		v4 := address.network.IP.To4()
		if v4 != nil {
			address.network.IP = v4
		}
		number[v4 != nil]++
	}
	if number[true] <= 1 && number[false] <= 1 {
		return nil
	}
	if several, _ := version.GreaterThanOrEqualTo(cniVersion, "0.3.0"); !several {
		return fmt.Errorf("CNI version %v does not support more than 1 address per family", cniVersion)
	}
	return nil
}

func addStatic(c *plugin.Call) (*current.Result, error) {
	conf, err := parseStatic(c)
	if err != nil {
		return nil, err
	}
	result := &current.Result{CNIVersion: current.ImplementedSpecVersion, DNS: conf.DNS, Routes: conf.Routes}
	for _, address := range conf.Addresses {
		result.IPs = append(result.IPs, &current.IPConfig{Address: *address.network, Gateway: address.Gateway})
	}
	return result, nil
}
