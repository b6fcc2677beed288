// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/firewall"
	"github.com/allocnet/allocnet/internal/inprocess/tuning"
	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/resolvconf"
)

// host is the machine whose objects are found and removed, and the catalogue of
// what to find. Tests have fakes.
type host struct {
	catalog  catalog
	programs programs
	kernel   kernel
	// resolvConfDir has the files of namespaces that allocnet made. Empty: none.
	resolvConfDir string
	// patience limits the time of each listing and of each transaction: a program that
	// hangs must not keep leaks from being removed ever after. Default: a minute.
	patience time.Duration
}

func (h *host) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := cmp.Or(h.patience, time.Minute) // iptables itself waits 30 s for its lock
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s: %w", limit, context.DeadlineExceeded))
}

var thisHost = &host{catalog: catalogue, programs: system{}, kernel: system{}, resolvConfDir: resolvconf.DefaultDir}

func (h *host) orDefault() *host {
	if h == nil {
		return thisHost
	}
	return h
}

type programs interface {
	installed(name string) bool
	// run returns the standard output.
	run(ctx context.Context, stdin, name string, args ...string) (string, error)
	legacyTables(family netfilter.Family) ([]string, error)
	// legacyChains and nftChains return what the kernel itself tells of a family: names of chains, those of
	// nftables that have rules. There may be other words among them.
	legacyChains(ctx context.Context, family netfilter.Family) ([]string, error)
	nftChains(ctx context.Context, family netfilter.Family) ([]string, error)
	// searchRules tells which of the searches find something in nftables or in legacy tables.
	searchRules(ctx context.Context, searches []netfilter.RuleSearch) (found []bool, err error)
	// findSources returns those addresses that are sources of a zone of firewalld.
	findSources(ctx context.Context, wanted []firewall.Source) ([]firewall.Source, error)
	removeSource(ctx context.Context, s firewall.Source) error
	// listNFTables and removeNFTables are about what plugins make in nftables.
	listNFTables(ctx context.Context, t nftTable) (rules []nftRule, chains []string, err error)
	removeNFTables(ctx context.Context, t nftTable, objects []Object) error
}

type kernel interface {
	links(linkType string) ([]string, error)
	findLink(name, linkType, mac string) (present string, err error)
	removeLink(name, linkType, mac string) error
	restoreDevice(d netns.Device) error
	forgetFlows(ctx context.Context, wanted func(netfilter.Flow) bool) error
	// namespaces returns all but the caller's. The error joins those of the ones that cannot be looked into.
	namespaces() ([]netns.Place, error)
	open(path string) (namespace, error)
	exists(path string) bool
}

type namespace interface {
	ID() string
	Inode() uint64
	RemoveInterface(name string) error
	ReturnDevice(d netns.Device) error
	Close() error
}

// system is the host that this process runs on.
type system struct{}

func (system) installed(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}

func (system) run(ctx context.Context, stdin, name string, args ...string) (string, error) {
	return netfilter.Runner{}.Run(ctx, stdin, name, args...)
}

func (system) legacyTables(f netfilter.Family) ([]string, error) { return netfilter.LegacyTables(f) }

func (system) links(linkType string) ([]string, error) { return netns.Links(linkType) }

func (system) findLink(name, linkType, mac string) (string, error) {
	return netns.FindLink(name, linkType, mac)
}

func (system) removeLink(name, linkType, mac string) error {
	return netns.RemoveLink(name, linkType, mac)
}

func (system) restoreDevice(d netns.Device) error { return netns.RestoreDevice(d) }

// restorer gives a device back what plugins tuning have saved in files.
func restorer(files []string) func(netlink.Link) {
	return func(link netlink.Link) { tuning.Restore(link, files) }
}

func (system) forgetFlows(ctx context.Context, wanted func(netfilter.Flow) bool) error {
	return netfilter.ForgetEach(ctx, wanted)
}

func (system) namespaces() ([]netns.Place, error) { return netns.Others() }

func (system) exists(path string) bool { return netns.Exists(path) }

func (system) open(path string) (namespace, error) { return netns.Open(path) }
