// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"errors"
	"fmt"
	"slices"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
)

// repairTuning repairs the parameters and the settings of the link. What the configuration
// does not have is left as it is, as ADD does.
func repairTuning(c *call) error {
	conf, err := parseTuning(c)
	if err != nil {
		return err
	}
	return withinPath(c.netns, func(ns.NetNS) error {
		link, err := findLink(c.ifName)
		if err != nil || link == nil {
			return err
		}
		return errors.Join(conf.repairSysctls(c), conf.link().repair(c.repair, link))
	})
}

func (conf *tuningConfig) repairSysctls(c *call) error {
	var errs []error
	for _, key := range conf.keys() {
		path, err := sysctlPath(key, c.ifName)
		if err == nil {
			err = c.ensureSysctl(path, conf.Sysctl[key])
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// repair makes each setting that the link does not have.
func (s linkSettings) repair(r *Repair, link netlink.Link) error {
	var errs []error
	for _, one := range s.each() {
		if err := one.compare(link); err != nil {
			errs = append(errs, r.ensure(err.Error(), func() error { return one.apply(link) }))
		}
	}
	return errors.Join(errs...)
}

// each returns the settings one by one.
func (s linkSettings) each() []linkSettings {
	all := []linkSettings{{MAC: s.MAC}, {Promisc: s.Promisc}, {MTU: s.MTU}, {Allmulti: s.Allmulti}, {TxQLen: s.TxQLen}}
	return slices.DeleteFunc(all, func(one linkSettings) bool { return one == linkSettings{} })
}

// repairBandwidth repairs the limits, and the device that has that of what the attachment
// sends.
func repairBandwidth(c *call) error {
	conf, result, err := c.bandwidth()
	if err != nil || conf.unlimited() {
		return err
	}
	host, err := c.hostEnd(result)
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
func (conf *bandwidthConfig) repairEgress(r *Repair, host netlink.Link, name string) error {
	device, err := findLink(name)
	if err != nil {
		return err
	}
	if device == nil {
		return r.ensure("interface "+name, func() error {
			if err := dropIngress(host); err != nil { // it leads to the device that is gone
				return err
			}
			_, err := conf.limitEgress(host, name)
			return err
		})
	}
	if err := errors.Join(r.ensureUp(device), conf.egress.repair(r, device)); err != nil {
		return err
	}
	redirected, err := redirects(host, device)
	if err != nil || redirected {
		return err
	}
	return r.ensure(fmt.Sprintf("redirection from %s to %s", host.Attrs().Name, name), func() error {
		if err := dropIngress(host); err != nil {
			return err
		}
		return redirect(host.Attrs().Index, device.Attrs().Index)
	})
}
