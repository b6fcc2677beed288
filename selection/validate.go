// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package selection

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/utils"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/portmap"
)

// interfaceForm is stricter than the kernel (dev_valid_name): plugins write the name
// into rules and comments, the kernel expands '%', and a leading '-' looks like an
// option.
var interfaceForm = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_.-]*$`)

// validateInterface accepts names that are valid for the kernel and the CNI
// specification, and have no special meaning in a path, an option or a rule.
func validateInterface(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("interface name is empty")
	case len(name) >= unix.IFNAMSIZ:
		return fmt.Errorf("interface name %q has %d bytes, want at most %d", name, len(name), unix.IFNAMSIZ-1)
	case !interfaceForm.MatchString(name):
		return fmt.Errorf("interface name %q: want letters, digits, '_', '.' and '-', beginning with a letter, a digit or '_'", name)
	case name == "all" || name == "default":
		return fmt.Errorf("interface name %q is reserved: the kernel has the settings of all interfaces under it", name)
	}
	return nil
}

// validate checks an element by itself; errors are below the position.
func validate(e Element, position string) error {
	fail := func(field, value, reason string) error {
		return &Error{position + "." + field, value, reason}
	}
	if e.Name == "" {
		return &Error{position, "", "the network's name is missing"}
	}
	if err := utils.ValidateNetworkName(e.Name); err != nil {
		return fail("name", e.Name, "want letters, digits, '_', '.' and '-', beginning with a letter or digit")
	}
	if e.Interface != "" {
		if err := validateInterface(e.Interface); err != nil {
			return fail("interface", "", err.Error())
		}
	}
	if e.MTU != 0 && (e.MTU < MinMTU || e.MTU > 65535) {
		return fail("mtu", fmt.Sprint(e.MTU), fmt.Sprintf("want at least %d, and at most the network's MTU", MinMTU))
	}
	for _, own := range []string{"portMappings", "mtu"} { // the tuning plugin, for one, reads mtu
		if hasArg(e, own) {
			return fail("cni-args", own, "want it as a key of the element, where it is validated")
		}
	}
	if key := ambiguousKey(e.CNIArgs); key != "" {
		return fail("cni-args", key, "is there in another spelling, too: plugins ignore the case of keys, so keep one of them")
	}
	for _, check := range []func(Element, string) error{validateIPs, validateHardware, validateBandwidth, validatePorts, validateDefaultRoute} {
		if err := check(e, position); err != nil {
			return err
		}
	}
	return nil
}

func validateIPs(e Element, position string) error {
	var seen []netip.Addr
	for i, text := range e.IPs {
		at := fmt.Sprintf("%s.ips[%d]", position, i)
		address, err := parseIP(text)
		if err != nil {
			return &Error{at, text, wantAddress}
		}
		if slices.Contains(seen, address) {
			return &Error{at, text, "duplicate address"}
		}
		seen = append(seen, address)
	}
	return nil
}

const wantAddress = "want an IP address with or without prefix length, as in 10.1.0.9/24"

func parseIP(text string) (netip.Addr, error) {
	if strings.Contains(text, "%") {
		return netip.Addr{}, errors.New("zone")
	}
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix.Addr(), nil
	}
	return netip.ParseAddr(text)
}

func validateHardware(e Element, position string) error {
	if e.MAC != "" {
		mac, err := net.ParseMAC(e.MAC)
		if err != nil || len(mac) != 6 {
			return &Error{position + ".mac", e.MAC, "want an Ethernet address, as in 02:00:00:00:00:01"}
		}
		if mac[0]&1 != 0 || mac.String() == "00:00:00:00:00:00" {
			return &Error{position + ".mac", e.MAC, "want a unicast address"}
		}
	}
	if e.InfinibandGUID != "" {
		guid, err := net.ParseMAC(e.InfinibandGUID)
		if err != nil || len(guid) != 8 {
			return &Error{position + ".infiniband-guid", e.InfinibandGUID, "want an EUI-64, as in 02:00:00:00:00:00:00:01"}
		}
	}
	return nil
}

func validateBandwidth(e Element, position string) error {
	b := e.Bandwidth
	if b == nil {
		return nil
	}
	for _, d := range []struct {
		direction   string
		rate, burst uint64
	}{{"ingress", b.IngressRate, b.IngressBurst}, {"egress", b.EgressRate, b.EgressBurst}} {
		at := position + ".bandwidth." + d.direction
		switch {
		case d.rate == 0 && d.burst == 0:
			continue
		case d.rate == 0:
			return &Error{at + "Burst", fmt.Sprint(d.burst), fmt.Sprintf("want %sRate too", d.direction)}
		case d.rate < minRate || d.rate > maxRate:
			return &Error{at + "Rate", fmt.Sprint(d.rate), fmt.Sprintf("want %d to %d bits per second", minRate, uint64(maxRate))}
		case d.burst == 0: // see withBursts
			continue
		case d.burst < minBurst || d.burst > d.rate*maxBurstSeconds || d.burst > maxBurst:
			return &Error{at + "Burst", fmt.Sprint(d.burst), fmt.Sprintf("want at least %d bits, which is a packet of 1500 bytes, and at most %d seconds of the rate and %d bits; or none, which is a tenth of a second", minBurst, maxBurstSeconds, uint64(maxBurst))}
		}
	}
	return nil
}

func validatePorts(e Element, position string) error {
	for i, label := range e.Ports {
		if label == "" {
			return &Error{fmt.Sprintf("%s.ports[%d]", position, i), "", "want the label of a port"}
		}
	}
	for i, m := range e.PortMappings {
		if _, err := portmap.Mappings(nil, m); err != nil {
			return &Error{fmt.Sprintf("%s.portMappings[%d]", position, i), "", err.Error()}
		}
	}
	return nil
}

func validateDefaultRoute(e Element, position string) error {
	var families []bool
	for i, text := range e.DefaultRoute {
		at := fmt.Sprintf("%s.default-route[%d]", position, i)
		gateway, err := netip.ParseAddr(text)
		if err != nil || gateway.Zone() != "" || gateway.IsUnspecified() {
			return &Error{at, text, "want the address of a gateway, as in 10.1.0.1"}
		}
		if slices.Contains(families, gateway.Is6()) {
			return &Error{at, text, "want at most one gateway for each of IPv4 and IPv6"}
		}
		families = append(families, gateway.Is6())
	}
	return nil
}

// Bounds of tc-tbf(8): a packet that is larger than a burst is dropped, and the kernel counts in 32 bits the time in
// which a burst is sent, and the bytes of a burst and of what may wait.
const (
	minBurst        = 8 * 1522
	maxBurstSeconds = 270
	minRate         = 1000
	maxRate         = 100_000_000_000
	maxBurst        = 24_000_000_000
	// usualBurst is the least that is chosen: packets that the kernel joins are up to 64 KiB.
	usualBurst = 8 * 64 << 10
)

// withBursts gives rates without a burst one.
func withBursts(b Bandwidth) Bandwidth {
	b.IngressBurst = burstOf(b.IngressRate, b.IngressBurst)
	b.EgressBurst = burstOf(b.EgressRate, b.EgressBurst)
	return b
}

func burstOf(rate, burst uint64) uint64 {
	if rate == 0 || burst != 0 {
		return burst
	}
	return min(max(rate/10, usualBurst), rate*maxBurstSeconds, maxBurst)
}
