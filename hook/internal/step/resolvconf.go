// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package step

import (
	"errors"
	"path/filepath"
	"slices"

	"github.com/allocnet/allocnet/internal/resolvconf"
	"github.com/allocnet/allocnet/state"
)

// resolvConf gives a namespace that Setup made the DNS of its attachments.
var resolvConf = step{Kept: writeResolvConf, Ended: removeResolvConf}

// recordedResolvConf is the file on record. The configuration may have changed.
func recordedResolvConf(w *Work) resolvconf.File {
	file := w.ResolvConf
	file.Dir = filepath.Dir(filepath.Dir(w.Record.Allocation.ResolvConf))
	return file
}

// writeResolvConf writes the resolv.conf of a namespace that Setup made, for the
// attachments without those that are being removed; when all are, the file goes with the
// namespace. The path is on record before. A file of the operator stays.
func writeResolvConf(w *Work, removed []state.Attachment) error {
	kept := *w.Record
	kept.Attachments = slices.DeleteFunc(slices.Clone(kept.Attachments), func(a state.Attachment) bool {
		return slices.ContainsFunc(removed, func(r state.Attachment) bool { return r.Interface == a.Interface })
	})
	if kept.Allocation.ResolvConf == "" || len(kept.Attachments) == 0 {
		return nil
	}
	dns, err := w.DNS(kept)
	if err == nil && len(dns.Servers) == 0 {
		dns, err = withHostServers(w, dns)
	}
	if err != nil {
		return err
	}
	err = recordedResolvConf(w).Write(dns)
	if errors.Is(err, resolvconf.ErrForeign) {
		w.Log.Warn("resolv.conf of the namespace is not changed", "error", err)
		return nil
	}
	return err
}

// withHostServers completes a configuration without servers by that of the host.
func withHostServers(w *Work, dns resolvconf.Config) (resolvconf.Config, error) {
	host, err := resolvconf.Host(w.HostResolvConf...)
	if err != nil {
		return dns, err
	}
	if len(host.Servers) == 0 {
		w.Log.Warn("no name servers for the namespace: its networks have none, and the host has none outside of its loopback interface: set dns in the conflist of a network", "files", w.HostResolvConf)
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
func removeResolvConf(w *Work) error {
	if w.Record.Allocation.ResolvConf == "" {
		return nil
	}
	return recordedResolvConf(w).Remove()
}
