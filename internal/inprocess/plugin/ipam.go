// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"
)

// IPArgs are those of the key "args" that the IPAM plugin reads, in its own form.
type IPArgs struct {
	IPs json.RawMessage `json:"ips"`
}

// needIPAM returns the IPAM plugin of a type, which has to be executed in process.
func (c *Call) needIPAM(name string) (Type, error) {
	if name == "" {
		return Type{}, errors.New("no plugin name provided")
	}
	p, ok := c.IPAM(name)
	if !ok {
		return Type{}, fmt.Errorf("IPAM type %q is not executed in process", name)
	}
	return p, nil
}

// AddIPAM has the IPAM plugin allocate addresses. The caller releases them with
// ReleaseIPAM if it fails later.
func (c *Call) AddIPAM(name string) (*current.Result, error) {
	p, err := c.needIPAM(name)
	if err != nil {
		return nil, err
	}
	result, err := p.Add(c)
	if err != nil {
		return nil, err
	}
	if len(result.IPs) == 0 {
		return nil, errors.Join(errors.New("IPAM plugin returned missing IP config"), p.Del(c))
	}
	data, err := Encode(result, c.Version) // an older version of the specification has no place for some of it
	if err != nil {
		return nil, err
	}
	printed, err := create.Create(c.Version, data)
	if err != nil {
		return nil, err
	}
	return current.NewResultFromResult(printed)
}

// Status asks the IPAM plugin. The other plugins of the reference set have nothing to say.
func (c *Call) Status() error {
	var conf types.PluginConf
	if err := json.Unmarshal(c.Config, &conf); err != nil {
		return err
	}
	if p, _ := c.IPAM(conf.IPAM.Type); p.Status != nil {
		return p.Status(c)
	}
	return nil
}

// ReleaseIPAM releases the addresses of the attachment. It is safe to repeat.
func (c *Call) ReleaseIPAM(name string) error {
	p, err := c.needIPAM(name)
	if err != nil {
		return err
	}
	c.leave(p)
	return p.Del(c)
}

// leave has the IPAM plugin do what it needs the interface for.
func (c *Call) leave(p Type) {
	if p.Leave != nil {
		p.Leave(c)
	}
}

// ReleaseIPAMLater leaves the addresses to be released when the links are removed.
func (c *Call) ReleaseIPAMLater(name string) {
	if p, ok := c.IPAM(name); ok {
		c.leave(p)
	}
	c.Changes.leases = append(c.Changes.leases, func(ctx context.Context) error {
		later := *c
		later.Ctx = ctx
		return later.ReleaseIPAM(name)
	})
}

// ChooseDNS returns the DNS of the plugin's configuration if it has any, else that of the
// IPAM plugin.
func ChooseDNS(configured, allocated types.DNS) types.DNS {
	if configured.Nameservers != nil || configured.Search != nil || configured.Options != nil || configured.Domain != "" {
		return configured
	}
	return allocated
}
