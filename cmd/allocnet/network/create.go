// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package network

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/policy"
)

const networkCreateLong = `Write the configuration of a network, NAME.conflist, into the first of the CNI configuration
directories that is there. The bridge is made when the first allocation is attached.

A bridge and a ptp network have a default route, masquerading and published ports, and
allocnet chooses a subnet for them if there is no --subnet. With --internal they reach
the host, or only each other. Networks on a link of the host (macvlan, ipvlan, vlan,
host-device) have a default route if --gateway names the router.

Only --vlan LINK.ID makes interfaces of that VLAN itself, and the kernel makes one for
each ID: one allocation of the host at a time can be attached. For more, make the link
LINK.ID, and a network of type macvlan with --master LINK.ID.

A name, a bridge or a subnet that another network has is refused, and so is a subnet that
this host reaches otherwise than by the network's own link. No file is replaced.

host-local, which assigns the addresses, knows this host alone. Of a network that other
hosts have, give each a --range of its own, or use allocnet-ipam.`

// creation is what the flags of network create say.
type creation struct {
	draft                     cniconf.Draft
	vlan                      string
	subnets, ranges, gateways []string
	dryRun                    bool
}

func newNetworkCreate(s *cli.Settings) *cobra.Command {
	var c creation
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Write the configuration of a network",
		Long:  networkCreateLong,
		Example: `  allocnet network create backend --internal
  allocnet network create frontend --subnet 10.43.0.0/24 --range 10.43.0.100-10.43.0.199
  allocnet network create lab --type macvlan --master uplink --subnet 10.44.0.0/24 --gateway 10.44.0.254 --dry-run`,
		Args:              cli.WantArguments(1, 1, "the name of the network"),
		ValidArgsFunction: s.CompleteFirst(func(*cli.Settings, *cobra.Command, []string, string) []string { return nil }),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.draft.Name = args[0]
			return c.run(cmd, s)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.draft.Type, "type", cniconf.DraftTypes[0], strings.Join(cniconf.DraftTypes, ", "))
	flags.StringVar(&c.draft.Bridge, "bridge", "", "the bridge (default the network's name and 0)")
	flags.StringVar(&c.draft.Master, "master", "", "the link of the host that interfaces are made on")
	flags.StringVar(&c.vlan, "vlan", "", "the link of the host and the ID of a VLAN on it, as in uplink.42, for a network of type vlan")
	flags.StringVar(&c.draft.Device, "device", "", "the link of the host that becomes the interface of one allocation")
	flags.StringSliceVar(&c.subnets, "subnet", nil, "the subnet; of IPv4, of IPv6, or both")
	flags.StringSliceVar(&c.ranges, "range", nil, "what allocations get of a subnet, as FIRST-LAST or a prefix")
	flags.StringSliceVar(&c.gateways, "gateway", nil, "the gateway of a subnet (default the first address of bridge and ptp)")
	flags.BoolVar(&c.draft.Internal, "internal", false, "no default route, no masquerading, and no published ports")
	flags.IntVar(&c.draft.MTU, "mtu", 0, "MTU of the interfaces (default: that of the link, or 1500)")
	flags.StringVar(&c.draft.Isolation, "isolation", "", "how far the network is apart from others: none, network or strict")
	flags.BoolVar(&c.dryRun, "dry-run", false, "print the file, do not write it")
	return cmd
}

func (c *creation) run(cmd *cobra.Command, s *cli.Settings) error {
	dirs := cniconf.Present(s.ConfDirs())
	if len(dirs) == 0 {
		return cli.Usage(fmt.Errorf("%w: create %s and put network configurations there", cniconf.ErrNoDir, cniconf.OwnDir))
	}
	if !c.dryRun {
		unlock, err := cniconf.Lock(cmd.Context(), dirs[0])
		if err != nil {
			return err
		}
		defer unlock()
	}
	catalog, err := cniconf.Load(withDefault(dirs)...)
	if err != nil {
		return err
	}
	if len(catalog.Broken) > 0 {
		return cli.Usage(fmt.Errorf("%w: correct or remove it first: it may have the name or the addresses of the new network", catalog.Broken[0]))
	}
	routes, err := netns.OwnRoutes()
	if err != nil {
		return err
	}
	if err := c.read(cmd.Flags().Changed, catalog, routes); err != nil {
		return err
	}
	data, err := c.draft.ConfList()
	if err != nil {
		return err
	}
	path := filepath.Join(dirs[0], c.draft.Name+".conflist")
	if err := c.check(s, catalog, routes, path, data); err != nil {
		return err
	}
	if c.dryRun {
		return cli.PrintLines(cmd.OutOrStdout(), strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")...)
	}
	err = cniconf.WriteNew(path, data)
	if errors.Is(err, fs.ErrExist) {
		return cli.Usage(fmt.Errorf("%s is there already: choose another name, or remove the file", path))
	}
	if err != nil {
		return err
	}
	created := createdJSON{c.draft.Name, path}
	return s.Output(cmd.OutOrStdout(), created, func(w io.Writer, _ cli.Terminal) error { return cli.PrintLines(w, created.Path) })
}

// withDefault returns directories with those that are read by default, if they are there: their networks use links and addresses of this
// host, too.
func withDefault(dirs []string) []string {
	all := slices.Clone(dirs)
	for _, dir := range cniconf.DefaultDirs() {
		if _, err := os.Stat(dir); err == nil && !slices.Contains(dirs, dir) {
			all = append(all, dir)
		}
	}
	return all
}

// withShadowed returns all networks. One whose name another one has is attached with another order of the directories.
func withShadowed(c *cniconf.Catalog) []*cniconf.Network {
	return slices.Concat(c.Networks, c.Shadowed)
}

type createdJSON struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// read completes the draft by the flags, and by what is free.
func (c *creation) read(changed func(string) bool, catalog *cniconf.Catalog, routes []netns.OwnRoute) (err error) {
	d := &c.draft
	if c.vlan != "" {
		if changed("type") && d.Type != "vlan" || d.Master != "" {
			return cli.Usage(fmt.Errorf("--vlan %q is a network of type vlan, and its link the master: want neither --type nor --master", c.vlan))
		}
		d.Type = "vlan"
		if d.Master, d.VLAN, err = parseVLAN(c.vlan); err != nil {
			return err
		}
	}
	if d.Type == "bridge" && d.Bridge == "" {
		if d.Bridge, err = freeBridge(d.Name); err != nil {
			return err
		}
	}
	if d.Subnets, err = parseEach("subnet", "a prefix, as in 10.42.0.0/24", c.subnets, netip.ParsePrefix); err != nil {
		return err
	}
	if d.Ranges, err = parseEach("range", "FIRST-LAST or a prefix, as in 10.42.0.10-10.42.0.99", c.ranges, parseSpan); err != nil {
		return err
	}
	if d.Gateways, err = parseEach("gateway", "an address, as in 10.42.0.1", c.gateways, netip.ParseAddr); err != nil {
		return err
	}
	if len(d.Subnets) == 0 && (d.Type == "bridge" || d.Type == "ptp") {
		subnet, err := cniconf.FreeSubnet(withShadowed(catalog), routes)
		if err != nil {
			return err
		}
		d.Subnets = []netip.Prefix{subnet}
	}
	return nil
}

// freeBridge returns the name of a bridge that is not there.
func freeBridge(network string) (string, error) {
	name := network + "0"
	if len(name) > 15 {
		return "", cli.Usage(fmt.Errorf("--bridge is missing: the network's name is too long for that of a link: want one of at most 15 characters"))
	}
	found, err := netns.HasLinkNamed(name)
	if err == nil && found {
		err = cli.Usage(fmt.Errorf("this host has a link %s already: want --bridge with another name, or with this one if it is a bridge for the network", name))
	}
	return name, err
}

func parseVLAN(text string) (link string, id int, err error) {
	at := strings.LastIndex(text, ".")
	if at > 0 {
		id, err = strconv.Atoi(text[at+1:])
	}
	if at <= 0 || err != nil {
		return "", 0, cli.Usage(fmt.Errorf("--vlan %q: want a link and an ID, as in uplink.42", text))
	}
	return text[:at], id, nil
}

func parseSpan(text string) (cniconf.Span, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return cniconf.Span{First: prefix.Masked().Addr(), Last: ipam.LastOf(prefix)}, nil
	}
	from, to, _ := strings.Cut(text, "-")
	first, err := netip.ParseAddr(from)
	last, failed := netip.ParseAddr(to)
	return cniconf.Span{First: first, Last: last}, errors.Join(err, failed)
}

func parseEach[T any](flag, want string, texts []string, parse func(string) (T, error)) (all []T, err error) {
	for _, text := range texts {
		value, err := parse(text)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("--%s %q: want %s", flag, text, want))
		}
		all = append(all, value)
	}
	return all, nil
}

// check refuses a network that would not work on this host, or would take something from another one.
func (c *creation) check(s *cli.Settings, catalog *cniconf.Catalog, routes []netns.OwnRoute, path string, data []byte) error {
	if n, err := catalog.Lookup(c.draft.Name); err == nil {
		return cli.Usage(fmt.Errorf("network %q is there already, in %s: choose another name, or remove it first (allocnet network rm %s)", n.Name, n.Path, n.Name))
	}
	n, err := cniconf.ParseNetwork(path, data)
	if err != nil {
		return err
	}
	if _, err := policy.Of(n); err != nil {
		return cli.Usage(err)
	}
	if err := n.CheckAddresses(); err != nil {
		return err
	}
	if err := n.CheckFree(withShadowed(catalog), routes); err != nil {
		return err
	}
	config, err := s.Config(hclog.NewNullLogger())
	if err != nil {
		return err
	}
	return config.Usable(catalog).Check(n)
}
