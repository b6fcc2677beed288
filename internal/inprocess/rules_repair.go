// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import "errors"

// repairPortmap leaves the rules of published ports to be added where they are missing.
func repairPortmap(c *call) error {
	conf, result, err := parsePortmap(c)
	if err != nil || result == nil || len(conf.RuntimeConfig.PortMappings) == 0 {
		return err
	}
	routesLocalnet := conf.routesLocalnet()
	if routesLocalnet {
		c.changes.rules = append(c.changes.rules, guardRules())
	}
	for _, address := range conf.addresses {
		r, err := conf.rules(address)
		if err != nil {
			return err
		}
		c.changes.rules = append(c.changes.rules, r)
		c.changes.translations = append(c.changes.translations, publication{address.IP, conf.RuntimeConfig.PortMappings})
		if !isIPv4(address.IP) || !routesLocalnet || routesAllLocalnet(c.sysctls.Get) {
			continue
		}
		// Without a route of its own the address is reached by another link, where packets
		// from 127.0.0.0/8 must not leave.
		if link := linkTo(address.IP); link != "" && find(result, link, "") != nil {
			if err := c.ensureSysctl(routeLocalnetKey(link), "1"); err != nil {
				return err
			}
		}
	}
	return nil
}

// repairFirewall leaves the rules of the firewall to be added where they are missing.
func repairFirewall(c *call) error {
	conf, result, err := parseFirewall(c)
	if err != nil {
		return err
	}
	if result == nil {
		return errors.New("missing prevResult from earlier plugin")
	}
	return conf.ensure(c, result, func(s *sources) error { return s.repair(c.repair) })
}
