// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// Call is what a runtime, or a plugin that delegates to this one, passes to it.
type Call struct {
	// ContainerID and Interface are the attachment. GC and STATUS have none.
	ContainerID, Interface string
	// Args is CNI_ARGS.
	Args string
	// Config is the configuration of the plugin that has the key "ipam".
	Config []byte
}

// config is the part of Call.Config that is not in "ipam".
type config struct {
	types.PluginConf
	IPAM          json.RawMessage `json:"ipam"`
	RuntimeConfig struct {
		IPs []string `json:"ips"`
	} `json:"runtimeConfig"`
	Args struct {
		CNI struct {
			IPs        []string `json:"ips"`
			AddressKey string   `json:"addressKey"`
		} `json:"cni"`
		Allocnet struct {
			// KeepAddresses has DEL keep the addresses for the next ADD. It is not in CNI_ARGS or
			// "cni", because jobs write these.
			KeepAddresses bool `json:"keepAddresses"`
			// Publish are addresses for an interface of the host. Nothing else is requested then.
			Publish []netip.Addr `json:"publish"`
		} `json:"allocnet"`
	} `json:"args"`
}

func (c Call) owner() ipam.Owner {
	return ipam.Owner{ContainerID: c.ContainerID, Interface: c.Interface}
}

// parsePool returns the configuration of the pool that a plugin's configuration names.
func parsePool(pluginConfig []byte) (*ipam.Config, error) {
	var c struct {
		IPAM json.RawMessage `json:"ipam"`
	}
	if err := json.Unmarshal(pluginConfig, &c); err != nil {
		return nil, coded(types.ErrDecodingFailure, err)
	}
	if c.IPAM == nil {
		return nil, coded(types.ErrInvalidNetworkConfig, errors.New(`the key "ipam" is missing`))
	}
	pool, err := ipam.Parse(c.IPAM)
	if err != nil {
		return nil, coded(types.ErrInvalidNetworkConfig, err)
	}
	return pool, nil
}

func (c Call) config() (*config, error) {
	conf := &config{}
	return conf, codedUnlessNil(types.ErrDecodingFailure, json.Unmarshal(c.Config, conf))
}

// request returns what ADD asks the pool for.
func (c Call) request() (ipam.Request, error) {
	conf, err := c.config()
	if err != nil {
		return ipam.Request{}, err
	}
	args, err := parseArgs(c.Args)
	if err != nil {
		return ipam.Request{}, err
	}
	request := ipam.Request{Owner: c.owner(), Job: args.job(c.ContainerID)}
	if publish := conf.Args.Allocnet.Publish; len(publish) > 0 {
		request.Addresses, request.Published = publish, true
		return request, nil
	}
	if key := conf.Args.CNI.AddressKey; key != "" && request.Job != (ipam.Job{}) {
		request.Job.Key = key
	}
	request.Addresses, err = requested(args, conf)
	return request, err
}

// requested returns the addresses that the job asks for, in the order in which host-local
// reads them. An address that is asked for twice is one.
func requested(args args, conf *config) ([]netip.Addr, error) {
	var addresses []netip.Addr
	seen, ofArgs := map[netip.Addr]bool{}, []string{}
	if ip, ok := args["IP"]; ok {
		ofArgs = append(ofArgs, ip)
	}
	for _, source := range []struct {
		key   string
		texts []string
		code  uint
	}{
		{"IP in CNI_ARGS", ofArgs, types.ErrInvalidEnvironmentVariables},
		{"args.cni.ips", conf.Args.CNI.IPs, types.ErrInvalidNetworkConfig},
		{"runtimeConfig.ips", conf.RuntimeConfig.IPs, types.ErrInvalidNetworkConfig},
	} {
		for _, text := range source.texts {
			address, err := parseAddress(text)
			if err != nil {
				return nil, coded(source.code, fmt.Errorf("%s: %w", source.key, err))
			}
			if !seen[address] {
				seen[address] = true
				addresses = append(addresses, address)
			}
		}
	}
	return addresses, nil
}

// parseAddress parses an address with or without the length of a prefix.
func parseAddress(text string) (netip.Addr, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix.Addr().Unmap(), nil
	}
	address, err := netip.ParseAddr(text)
	if err != nil || address.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("%q: want an address such as 10.0.0.9 or 10.0.0.9/24", text)
	}
	return address.Unmap(), nil
}

// previous returns the addresses of the pool in the result that CHECK passes, which have to be
// as ADD gave them.
func (c Call) previous(pool *ipam.Config) ([]netip.Addr, error) {
	conf, err := c.config()
	if err != nil {
		return nil, err
	}
	if conf.RawPrevResult == nil {
		return nil, coded(types.ErrInvalidNetworkConfig, errors.New("prevResult is missing: CHECK needs the result of ADD"))
	}
	err = version.ParsePrevResult(&conf.PluginConf)
	var result *current.Result
	if err == nil {
		result, err = current.NewResultFromResult(conf.PrevResult)
	}
	if err != nil {
		return nil, coded(types.ErrDecodingFailure, fmt.Errorf("prevResult: %w", err))
	}
	var addresses []netip.Addr
	for _, ip := range result.IPs {
		address, ok := netip.AddrFromSlice(ip.Address.IP)
		if address = address.Unmap(); !ok || !ipam.AnyContains(pool.Subnets(), address) { // of another plugin of the chain
			continue
		}
		if err := unchanged(pool, ip, address); err != nil {
			return nil, err
		}
		addresses = append(addresses, address)
	}
	return addresses, nil
}

// unchanged requires the prefix length and the gateway that ADD returns with an address. A main
// plugin may have left out the gateway, or added one where the pool has none.
func unchanged(pool *ipam.Config, ip *current.IPConfig, address netip.Addr) error {
	want, err := pool.Assign(address)
	if err != nil {
		return cniError(err)
	}
	bits, _ := ip.Address.Mask.Size()
	gateway, _ := netip.AddrFromSlice(ip.Gateway)
	gateway = gateway.Unmap()
	if bits != want.Address.Bits() || gateway.IsValid() && want.Gateway.IsValid() && gateway != want.Gateway {
		return cniError(fmt.Errorf("%w: prevResult has %s/%d with the gateway %v: want %s with %v", ipam.ErrNoLease, address, bits, ip.Gateway, want.Address, want.Gateway))
	}
	return nil
}
