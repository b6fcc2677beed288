// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"cmp"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/internal/strictjson"
)

// The values of what a configuration does not have.
const (
	defaultDataDir   = "/var/lib/cni/networks"
	defaultStateDir  = "/var/lib/allocnet"
	defaultRunDir    = "/run/allocnet"
	defaultConfigDir = "/etc/allocnet.d"
	defaultCooldown  = "60s"
	defaultMaxBlocks = 20
)

// document is the JSON of a configuration.
type document struct {
	Type              string          `json:"type"`
	Pool              string          `json:"pool"`
	Ranges            []rangeDocument `json:"ranges"`
	Reserved          []string        `json:"reserved"`
	BlockSize         map[string]int  `json:"blockSize"`
	Routes            []*types.Route  `json:"routes"`
	DNS               types.DNS       `json:"dns"`
	Cooldown          string          `json:"cooldown"`
	Probe             string          `json:"probe"`
	Sticky            bool            `json:"sticky"`
	MaxReservedPerJob int             `json:"maxReservedPerJob"`
	MaxBlocks         int             `json:"maxBlocks"`
	Mode              string          `json:"mode"`
	VXLAN             VXLAN           `json:"vxlan"`
	DataDir           string          `json:"dataDir"`
	StateDir          string          `json:"stateDir"`
	RunDir            string          `json:"runDir"`
	ConfigDir         string          `json:"configDir"`
}

type rangeDocument struct {
	Subnet     string   `json:"subnet"`
	RangeStart string   `json:"rangeStart"`
	RangeEnd   string   `json:"rangeEnd"`
	Gateway    string   `json:"gateway"`
	Exclude    []string `json:"exclude"`
}

// Parse reads the "ipam" object of a plugin's configuration. An error wraps ErrInvalid, and
// names the field, its value, and what would be right.
func Parse(config []byte) (*Config, error) {
	d := document{Cooldown: defaultCooldown, Mode: flatText, DataDir: defaultDataDir, StateDir: defaultStateDir, ConfigDir: defaultConfigDir}
	if err := (strictjson.Text{Path: "ipam", Line: 1, Data: config}).Decode(&d); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	c := &Config{
		Pool: d.Pool, Probe: d.Probe, Sticky: d.Sticky, MaxReservedPerJob: d.MaxReservedPerJob, MaxBlocks: d.MaxBlocks,
		VXLAN: d.VXLAN, Routes: d.Routes, DNS: d.DNS, DataDir: d.DataDir, StateDir: d.StateDir, RunDir: runDir(d.RunDir, d.StateDir), ConfigDir: d.ConfigDir,
	}
	if err := c.parse(&d); err != nil {
		return nil, err
	}
	return c, c.validate()
}

// runDir returns the directory of what is true of this boot. Beside another state directory than
// the usual one, it is in that one.
func runDir(configured, stateDir string) string {
	if configured == "" && stateDir == defaultStateDir {
		return defaultRunDir
	}
	return cmp.Or(configured, filepath.Join(stateDir, "run"))
}

func (c *Config) parse(d *document) (err error) {
	if c.Mode = parseMode(d.Mode); d.Mode == "" {
		return invalid("mode", d.Mode, "want one of flat, routed, vxlan and auto")
	}
	if len(d.Probe) > 15 || strings.ContainsAny(d.Probe, "/: \t\n") {
		return invalid("probe", d.Probe, "want the name of an interface")
	}
	if c.Cooldown, err = time.ParseDuration(d.Cooldown); err != nil {
		return invalid("cooldown", d.Cooldown, "want a duration such as 60s")
	}
	if c.Reserved, err = parsePrefixes("reserved", d.Reserved); err != nil {
		return err
	}
	if err := c.BlockSize.parse(d.BlockSize); err != nil {
		return err
	}
	for i := range d.Ranges {
		r, err := d.Ranges[i].parse(fmt.Sprintf("ranges[%d]", i))
		if err != nil {
			return err
		}
		c.Ranges = append(c.Ranges, r)
	}
	return nil
}

func (s *BlockSize) parse(sizes map[string]int) error {
	for family, size := range sizes {
		var field *int
		switch family {
		case "4":
			field = &s.IPv4
		case "6":
			field = &s.IPv6
		default:
			return invalid("blockSize", family, "want 4 and 6")
		}
		if *field = size; size <= 0 {
			return invalid("blockSize", size, "want the prefix length of blocks")
		}
	}
	return nil
}

func (d *rangeDocument) parse(field string) (r Range, err error) {
	if r.Subnet, err = netip.ParsePrefix(d.Subnet); err != nil || r.Subnet.Addr().Is4In6() {
		return r, invalid(field+".subnet", d.Subnet, "want a subnet such as 10.91.0.0/16")
	}
	for _, address := range []struct {
		name, text string
		to         *netip.Addr
	}{{"rangeStart", d.RangeStart, &r.Start}, {"rangeEnd", d.RangeEnd, &r.End}, {"gateway", d.Gateway, &r.Gateway}} {
		if address.text == "" {
			continue
		}
		a, err := netip.ParseAddr(address.text)
		if err != nil || a.Zone() != "" || a.Is4In6() {
			return r, invalid(field+"."+address.name, address.text, "want an address")
		}
		*address.to = a
	}
	r.Exclude, err = parsePrefixes(field+".exclude", d.Exclude)
	return r, err
}

// parsePrefixes reads prefixes and single addresses.
func parsePrefixes(field string, texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for i, text := range texts {
		p, err := netip.ParsePrefix(text)
		if a, addrErr := netip.ParseAddr(text); addrErr == nil && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil || p.Addr().Is4In6() || p != p.Masked() {
			return nil, invalid(fmt.Sprintf("%s[%d]", field, i), text, "want an address, or a prefix such as 10.91.0.16/28")
		}
		all = append(all, p)
	}
	return all, nil
}

func invalid(field string, value any, want string, args ...any) error {
	return fmt.Errorf("%w: ipam: %s is %.200q: %s", ErrInvalid, field, fmt.Sprint(value), fmt.Sprintf(want, args...))
}
