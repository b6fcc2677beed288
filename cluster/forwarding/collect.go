// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/cluster/route"
	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/netns"
)

// deviceAlias is the beginning of the alias of a pool's VXLAN device, before the pool's name.
const deviceAlias = "allocnet pool "

// Collect reads the facts of this host. Node is the address that other hosts send to; if it is not
// valid it is found. Rules are read only by root: without, they are left out.
func Collect(ctx context.Context, node netip.Addr, withRules bool) *Facts {
	f := &Facts{}
	f.ipv4, f.ipv6 = f.read("net/ipv4/ip_forward"), f.read("net/ipv6/conf/all/forwarding")
	f.unread(f.collectLinks(node))
	if withRules {
		f.IsGuarded = route.IsGuarded
		f.collectRules(ctx)
	}
	return f
}

func (f *Facts) unread(err error) {
	if err != nil {
		f.Unread = append(f.Unread, err)
	}
}

// read returns a setting of the kernel; empty if it has none.
func (f *Facts) read(name string) string {
	data, err := os.ReadFile(filepath.Join("/proc/sys", name))
	if !errors.Is(err, fs.ErrNotExist) {
		f.unread(err)
	}
	return strings.TrimSpace(string(data))
}

// collectLinks reads the interfaces and their addresses.
func (f *Facts) collectLinks(node netip.Addr) error {
	links, err := netns.Whole(netlink.LinkList)
	if err != nil {
		return fmt.Errorf("list interfaces: %w", err)
	}
	addresses, err := netns.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	byIndex := map[int]netlink.Link{}
	f.Devices = map[string]Device{}
	for _, link := range links {
		byIndex[link.Attrs().Index] = link
		pool, isPool := strings.CutPrefix(link.Attrs().Alias, deviceAlias)
		if device, ok := link.(*netlink.Vxlan); ok && isPool {
			if local, ok := netip.AddrFromSlice(device.SrcAddr); ok && !node.IsValid() {
				node = local.Unmap()
			}
			f.Devices[pool] = Device{device.MTU, device.Name}
		}
	}
	for _, link := range links {
		if _, ok := byIndex[link.Attrs().MasterIndex].(*netlink.Vrf); ok {
			f.inVRF = append(f.inVRF, link.Attrs().Name)
		}
	}
	for i := range addresses {
		f.add(&addresses[i], byIndex[addresses[i].LinkIndex])
	}
	if !node.IsValid() {
		node = defaultSource()
	}
	f.setUnderlay(node, links)
	return nil
}

// add adds an address, unless its interface is gone.
func (f *Facts) add(a *netlink.Addr, link netlink.Link) {
	address, ok := netip.AddrFromSlice(a.IP)
	if !ok || link == nil {
		return
	}
	bits, _ := a.Mask.Size()
	f.Addresses = append(f.Addresses, Address{link.Attrs().Name, netip.PrefixFrom(address.Unmap(), bits)})
}

// defaultSource returns the address from which the host sends by its default route.
func defaultSource() netip.Addr {
	for _, far := range []string{"192.0.2.1", "2001:db8::1"} { // of documentation: no host has them
		routes, err := netlink.RouteGet(netip.MustParseAddr(far).AsSlice())
		if err != nil || len(routes) == 0 {
			continue
		}
		if source, ok := netip.AddrFromSlice(routes[0].Src); ok {
			return source.Unmap()
		}
	}
	return netip.Addr{}
}

// isStrict tells whether packets whose answer would take another interface are dropped. Of the values of
// rp_filter for all interfaces and for one, the kernel takes the larger.
func isStrict(all, one string) bool { return max(all, one) == "1" }

func (f *Facts) setUnderlay(node netip.Addr, links []netlink.Link) {
	for _, a := range f.Addresses {
		if a.Prefix.Addr() != node {
			continue
		}
		key := "net/ipv4/conf/" + a.Interface
		f.Underlay = Interface{
			Name: a.Interface, IsIPv6: node.Is6(), forwards: f.read(key + "/forwarding"),
			strict: isStrict(f.read("net/ipv4/conf/all/rp_filter"), f.read(key+"/rp_filter")),
		}
		for _, link := range links {
			if link.Attrs().Name == a.Interface {
				f.Underlay.MTU = link.Attrs().MTU
			}
		}
		return
	}
}

// rulesTimeout bounds the programs that list rules: that of firewalld waits for its daemon.
const rulesTimeout = 20 * time.Second

// collectRules reads what filters forwarded packets.
func (f *Facts) collectRules(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, rulesTimeout)
	defer stop()
	listed := f.collectIPTables(ctx)
	f.unread(f.collectNftables(ctx, []string{Forward, prerouting}, listed))
	f.unread(f.collectFirewalld(ctx))
}

// CollectFilters reads the rules alone: those of packets that come to the host, that it forwards, gets and sends.
func CollectFilters(ctx context.Context) *Facts {
	ctx, stop := context.WithTimeout(ctx, rulesTimeout)
	defer stop()
	f := &Facts{}
	if _, err := exec.LookPath("nft"); err != nil {
		f.unread(fmt.Errorf("rules of nftables are not read: %w", err))
	}
	f.unread(f.collectNftables(ctx, []string{prerouting, Forward, Input, Output}, f.collectIPTables(ctx)))
	for _, l := range f.Listings {
		f.addOtherTables(l)
	}
	return f
}

// addOtherTables adds those of iptables beside the table filter.
func (f *Facts) addOtherTables(l cleanup.Listing) {
	for _, name := range netfilter.Unlisted(l.Text) {
		if slices.Contains(otherTables, name) {
			f.unread(fmt.Errorf("%s-save cannot show the table %s, as it has rules that were made with nft", l.Program, name))
		}
	}
	for _, name := range otherTables {
		s := parseIptablesTable(l, name)
		s.name += " -t " + name
		f.rulesets = append(f.rulesets, s)
	}
}

// collectIPTables reads the rules of iptables, and returns the families of nftables of which its programs have listed the tables.
func (f *Facts) collectIPTables(ctx context.Context) (listed map[string]bool) {
	listings, err := cleanup.Listings(ctx)
	f.unread(err)
	f.Listings = listings
	listed = map[string]bool{}
	for _, l := range listings {
		f.rulesets = append(f.rulesets, parseIptables(l))
		if !strings.HasSuffix(l.Program, "-legacy") {
			listed[map[bool]string{false: "ip", true: "ip6"}[l.IPv6]] = true
		}
	}
	return listed
}

// collectFirewalld reads the zones of firewalld, if it runs.
func (f *Facts) collectFirewalld(ctx context.Context) error {
	state, err := output(ctx, "firewall-cmd", "--state")
	var ended *exec.ExitError
	if state == nil && (err == nil || ctx.Err() == nil && errors.As(err, &ended)) {
		return nil // it is not installed, or does not run
	}
	zones, errZones := output(ctx, "firewall-cmd", "--list-all-zones")
	if err = cmp.Or(err, errZones); err != nil {
		return fmt.Errorf("the zones of firewalld are not known: %w", err)
	}
	f.zones = append([]zone{}, parseZones(string(zones))...)
	return nil
}

// collectNftables reads the tables with chains of hooks.
func (f *Facts) collectNftables(ctx context.Context, hooks []string, listed map[string]bool) error {
	chains, err := output(ctx, "nft", "-j", "list", "chains")
	if chains == nil {
		return err
	}
	tables, err := tablesWith(chains, hooks, listed)
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range tables {
		data, err := output(ctx, "nft", "-j", "list", "table", t.family, t.name)
		if err != nil && strings.Contains(err.Error(), "No such file or directory") {
			continue // it was deleted
		}
		if t.family == bridgeFamily {
			f.bridgeTables = append(f.bridgeTables, parseBridges(t, data))
			continue
		}
		s, errParse := parseNftables(t, data)
		if err = cmp.Or(err, errParse); err != nil {
			errs = append(errs, err)
			continue
		}
		f.rulesets = append(f.rulesets, s)
	}
	return errors.Join(errs...)
}

// output returns what a program prints; nil if it fails, or without an error if it is not installed.
func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	text, err := netfilter.Runner{}.Run(ctx, "", name, args...)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return []byte(text), nil
}
