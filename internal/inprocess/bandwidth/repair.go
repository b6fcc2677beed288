// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package bandwidth

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/iface"
	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
)

// repair repairs the limits, and the device that has that of what the attachment
// sends.
func repair(c *plugin.Call) error {
	conf, result, err := load(c)
	if err != nil || conf.unlimited() {
		return err
	}
	host, err := iface.HostEnd(c, result)
	if err != nil || host == nil {
		return err
	}
	if conf.ingress != (limit{}) {
		if err := conf.ingress.repair(c.Repair, host); err != nil {
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
	return conf.repairEgress(c.Repair, host, name)
}

// repairEgress repairs the device, and what has packets sent by it.
func (conf *config) repairEgress(r *remedy.Repair, host netlink.Link, name string) error {
	device, err := links.Find(name)
	if err != nil {
		return err
	}
	if device == nil {
		return r.Ensure("interface "+name, func() error {
			if err := dropIngress(host); err != nil { // it leads to the device that is gone
				return err
			}
			_, err := conf.limitEgress(host, name)
			return err
		})
	}
	if err := errors.Join(remedy.EnsureUp(r, device), conf.egress.repair(r, device)); err != nil {
		return err
	}
	redirected, err := redirects(host, device)
	if err != nil || redirected {
		return err
	}
	return r.Ensure(fmt.Sprintf("redirection from %s to %s", host.Attrs().Name, name), func() error {
		if err := dropIngress(host); err != nil {
			return err
		}
		return redirect(host.Attrs().Index, device.Attrs().Index)
	})
}
