// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package tuning

import (
	"errors"
	"slices"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/sysctl"
)

// repair repairs the parameters and the settings of the link. What the configuration
// does not have is left as it is, as ADD does.
func repair(c *plugin.Call) error {
	conf, err := parse(c)
	if err != nil || c.Repair.Moved { // what has its name may be a task's
		return err
	}
	return within.Path(c.Netns, func(ns.NetNS) error {
		link, err := links.Find(c.IfName)
		if err != nil || link == nil {
			return err
		}
		return errors.Join(conf.repairSysctls(c), conf.link().repair(c.Repair, link))
	})
}

func (conf *config) repairSysctls(c *plugin.Call) error {
	var errs []error
	for _, key := range sysctl.InOrder(conf.Sysctl) {
		path, err := sysctl.Path(key, c.IfName)
		if err == nil {
			err = c.EnsureSysctl(path, conf.Sysctl[key])
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// repair makes each setting that the link does not have.
func (s linkSettings) repair(r *remedy.Repair, link netlink.Link) error {
	var errs []error
	for _, one := range s.each() {
		if err := one.compare(link); err != nil {
			errs = append(errs, r.Ensure(err.Error(), func() error { return one.apply(link) }))
		}
	}
	return errors.Join(errs...)
}

func (s linkSettings) each() []linkSettings {
	all := []linkSettings{{MAC: s.MAC}, {Promisc: s.Promisc}, {MTU: s.MTU}, {Allmulti: s.Allmulti}, {TxQLen: s.TxQLen}}
	return slices.DeleteFunc(all, func(one linkSettings) bool { return one == linkSettings{} })
}
