// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"
)

// ipArgs are those of the key "args" that the IPAM plugin reads, in its own form.
type ipArgs struct {
	IPs json.RawMessage `json:"ips"`
}

// ipam returns the IPAM plugin of the given type.
func ipam(name string) (plugin, error) {
	if name == "" {
		return plugin{}, errors.New("no plugin name provided") // CHECK without IPAM
	}
	p, ok := ipams[name]
	if !ok {
		return plugin{}, fmt.Errorf("IPAM type %q is not executed in process", name)
	}
	return p, nil
}

// addIPAM has the IPAM plugin allocate addresses. The caller releases them with
// releaseIPAM if it fails later.
func (c *call) addIPAM(name string) (*current.Result, error) {
	p, err := ipam(name)
	if err != nil {
		return nil, err
	}
	result, err := p.add(c)
	if err != nil {
		return nil, err
	}
	if len(result.IPs) == 0 {
		return nil, errors.Join(errors.New("IPAM plugin returned missing IP config"), p.del(c))
	}
	return reread(result, c.version)
}

// reread returns a result as the caller of a plugin reads it: an older version of the
// specification has no place for some of it.
func reread(result *current.Result, cniVersion string) (*current.Result, error) {
	data, err := encode(result, cniVersion)
	if err != nil {
		return nil, err
	}
	printed, err := create.Create(cniVersion, data)
	if err != nil {
		return nil, err
	}
	return current.NewResultFromResult(printed)
}

func (c *call) checkIPAM(name string) error {
	p, err := ipam(name)
	if err != nil {
		return err
	}
	return p.check(c)
}

// status asks the IPAM plugin. The other plugins of the reference set have nothing to say.
func (c *call) status() error {
	var conf types.PluginConf
	if err := json.Unmarshal(c.config, &conf); err != nil {
		return err
	}
	if p := ipams[conf.IPAM.Type]; p.status != nil {
		return p.status(c)
	}
	return nil
}

// releaseIPAM releases the addresses of the attachment. It is safe to repeat.
func (c *call) releaseIPAM(name string) error {
	p, err := ipam(name)
	if err != nil {
		return err
	}
	return p.del(c)
}

// releaseIPAMLater leaves the addresses to be released when the links are removed.
func (c *call) releaseIPAMLater(name string) {
	c.changes.leases = append(c.changes.leases, func(ctx context.Context) error {
		later := *c
		later.ctx = ctx
		return later.releaseIPAM(name)
	})
}

// chooseDNS returns the DNS of the plugin's configuration if it has any, else that of the
// IPAM plugin.
func chooseDNS(configured, allocated types.DNS) types.DNS {
	if configured.Nameservers != nil || configured.Search != nil || configured.Options != nil || configured.Domain != "" {
		return configured
	}
	return allocated
}
