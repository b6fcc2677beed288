// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"path/filepath"
	"slices"

	"github.com/allocnet/allocnet/internal/resolvconf"
	"github.com/allocnet/allocnet/state"
)

// resolvConf is the resolv.conf of a namespace that Setup makes.
func (c Config) resolvConf(id string) resolvconf.File {
	return resolvconf.File{Dir: c.ResolvConfDir, Name: id, Intercept: c.changeFile}
}

// recordedResolvConf is the file on record. The configuration may have changed.
func (o *operation) recordedResolvConf() resolvconf.File {
	file := o.config.resolvConf(o.record.Allocation.ID)
	file.Dir = filepath.Dir(filepath.Dir(o.record.Allocation.ResolvConf))
	return file
}

// writeResolvConf writes the resolv.conf of a namespace that Setup made, for the
// attachments without those that are being removed; when all are, the file goes with the
// namespace. The path is on record before. A file of the operator stays.
func (o *operation) writeResolvConf(removed []state.Attachment) error {
	kept := o.record
	kept.Attachments = slices.DeleteFunc(slices.Clone(kept.Attachments), func(a state.Attachment) bool {
		return slices.ContainsFunc(removed, func(r state.Attachment) bool { return r.Interface == a.Interface })
	})
	if kept.Allocation.ResolvConf == "" || len(kept.Attachments) == 0 {
		return nil
	}
	a, err := describe(kept)
	if err != nil {
		return err
	}
	dns := resolvconf.Config(a.DNS)
	if len(dns.Servers) == 0 {
		if dns, err = o.withHostServers(dns); err != nil {
			return err
		}
	}
	err = o.recordedResolvConf().Write(dns)
	if errors.Is(err, resolvconf.ErrForeign) {
		o.log.Warn("resolv.conf of the namespace is not changed", "error", err)
		return nil
	}
	return err
}

// withHostServers completes a configuration without servers by that of the host.
func (o *operation) withHostServers(dns resolvconf.Config) (resolvconf.Config, error) {
	host, err := resolvconf.Host(o.config.HostResolvConf...)
	if err != nil {
		return dns, err
	}
	if len(host.Servers) == 0 {
		o.log.Warn("no name servers for the namespace: its networks have none, and the host has none outside of its loopback interface: set dns in the conflist of a network", "files", o.config.HostResolvConf)
	}
	dns.Servers = host.Servers
	if len(dns.Searches) == 0 {
		dns.Searches = host.Searches
	}
	if len(dns.Options) == 0 {
		dns.Options = host.Options
	}
	return dns, nil
}

// removeResolvConf removes the file unless it is the operator's.
func (o *operation) removeResolvConf() error {
	if o.record.Allocation.ResolvConf == "" {
		return nil
	}
	return o.recordedResolvConf().Remove()
}
