// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// draft is a configuration that variants change.
type draft struct {
	version string
	// plugin is that which makes the interface, and chain those after it.
	plugin       map[string]any
	chain        []map[string]any
	capabilities map[string]any
	args         [][2]string
	prepare      []string
	steps        []string
	// more are other networks of the allocation.
	more   []network
	legacy bool
}

// variant is one way to configure a thing.
type variant struct {
	name  string
	apply func(*draft)
}

// family is the configurations of one kind of network.
type family struct {
	name string
	// basic is the configuration without variants.
	basic func() *draft
	// dimensions are the things that can be configured, each with its variants. In one
	// configuration each has one variant or none.
	dimensions [][]variant
	// shared are dimensions that another family has too. They come only in combinations.
	shared [][]variant
	// single are variants that come only alone.
	single []variant
	// combined is how many configurations have several variants.
	combined int
}

// families are all kinds of networks.
var families = []family{bridgeFamily, gatewayFamily, ptpFamily, macvlanFamily, ipvlanFamily, vlanFamily, allocationFamily, legacyFamily, loopbackFamily}

// configurations returns those with no variant, with each alone, and with random ones. They are
// the same each time.
func (f family) configurations() []configuration {
	all := []configuration{f.with(nil)}
	for _, dimension := range slices.Concat(f.dimensions, [][]variant{f.single}) {
		for _, v := range dimension {
			all = append(all, f.with([]variant{v}))
		}
	}
	chance := rand.New(rand.NewPCG(uint64(len(f.name)), 1))
	for i := range f.combined {
		c := f.with(f.choose(chance))
		c.Name = fmt.Sprintf("%s %d", c.Name, i)
		all = append(all, c)
	}
	return all
}

func (f family) all() [][]variant { return slices.Concat(f.dimensions, f.shared) }

// choose returns one variant of about half of the dimensions.
func (f family) choose(chance *rand.Rand) []variant {
	var chosen []variant
	for _, dimension := range f.all() {
		if chance.IntN(2) == 0 {
			chosen = append(chosen, dimension[chance.IntN(len(dimension))])
		}
	}
	return chosen
}

// with returns the configuration with variants.
func (f family) with(variants []variant) configuration {
	d := f.basic()
	names := []string{f.name}
	for _, v := range variants {
		v.apply(d)
		names = append(names, v.name)
	}
	c := configuration{Name: strings.Join(names, " "), Prepare: d.prepare, Steps: d.steps, Legacy: d.legacy}
	if c.Steps == nil {
		c.Steps = []string{add, check, add, check, del, del}
	}
	list := map[string]any{"cniVersion": d.version, "name": "net", "plugins": append([]map[string]any{d.plugin}, d.chain...)}
	c.Networks = []network{{List: text(list), Args: d.args}}
	if d.capabilities != nil {
		c.Networks[0].Capabilities = text(d.capabilities)
	}
	c.Networks = append(c.Networks, d.more...)
	return c
}

func text(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // a mistake in a variant
	}
	return string(data)
}

// set returns a variant of the plugin that makes the interface.
func set(name string, keys map[string]any) variant {
	return variant{name, func(d *draft) { maps.Copy(d.plugin, keys) }}
}

// prepared returns a variant of the host.
func prepared(name string, commands ...string) variant {
	return variant{name, func(d *draft) { d.prepare = append(d.prepare, commands...) }}
}

// script returns a variant of the steps.
func script(name string, steps ...string) variant {
	return variant{name, func(d *draft) { d.steps = steps }}
}

// damaged returns a variant in which an attachment is damaged by a command.
func damaged(name, command string) variant {
	return script(name, add, command, check, del, del)
}

func cniVersion(version string) variant {
	return variant{"version " + version, func(d *draft) { d.version = version }}
}

// capability returns a variant in which a plugin has a capability, with the argument.
func capability(d *draft, plugin map[string]any, name string, argument any) {
	declared, _ := plugin["capabilities"].(map[string]any)
	if declared == nil {
		declared = map[string]any{}
		plugin["capabilities"] = declared
	}
	declared[name] = true
	if d.capabilities == nil {
		d.capabilities = map[string]any{}
	}
	d.capabilities[name] = argument
}

// scripts are the sequences of verbs that any network can have.
var scripts = []variant{
	script("again", add, check, del, add, check, del),
	script("vanished", add, check, vanish, del, del),
	script("vanished before ADD", vanish, add, check, del),
	script("only DEL", del, del),
	script("CHECK after DEL", add, del, check, del),
	script("cache lost", add, "rm -rf /var/lib/cni/results", check, del),
	damaged("interface lost", "ip -n sandbox link del eth0 || true"),
	damaged("interface down", "ip -n sandbox link set eth0 down || true"),
	damaged("addresses lost", "ip -n sandbox addr flush dev eth0 || true"),
	damaged("routes lost", "ip -n sandbox route flush table main; ip -n sandbox -6 route flush table main; true"),
	damaged("MAC changed", "ip -n sandbox link set eth0 address 02:00:00:00:00:99 || true"),
	damaged("interface renamed", "ip -n sandbox link set eth0 down && ip -n sandbox link set eth0 name eth9 || true"),
	damaged("rules lost", "nft flush ruleset"),
	damaged("leases lost", "rm -rf /var/lib/cni/networks"),
}

var versions = []variant{cniVersion("0.3.0"), cniVersion("0.3.1"), cniVersion("0.4.0"), cniVersion("1.1.0")}
