// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
)

// repairBandwidth repairs the limits, and the device that has that of what the attachment
// sends.
func repairBandwidth(c *call) error {
	conf, result, err := loadBandwidth(c)
	if err != nil || conf.unlimited() {
		return err
	}
	host, err := hostEnd(c, result)
	if err != nil || host == nil {
		return err
	}
	if conf.ingress != (limit{}) {
		if err := conf.ingress.repair(c.repair, host); err != nil {
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
	return conf.repairEgress(c.repair, host, name)
}

// repairEgress repairs the device, and what has packets sent by it.
func (conf *bandwidthConfig) repairEgress(r *remedy.Repair, host netlink.Link, name string) error {
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
