// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package selection

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/strictjson"
)

// Choice is what is chosen of an attachment's addresses, in whatever way.
type Choice struct {
	// Addresses have the length of the prefix that is chosen with them; -1 without one.
	Addresses []netip.Prefix
	// Hardware are MACs and InfiniBand GUIDs, as the kernel prints them.
	Hardware []string
}

// Choose returns what the element and CNI_ARGS choose. Plugins accept addresses in cni-args as
// well, and ignore the case of the keys. Errors are *Error.
func Choose(e Element, args map[string]string) (Choice, error) {
	var c Choice
	for i, text := range e.IPs {
		if err := c.addAddress(fmt.Sprintf("ips[%d]", i), text); err != nil {
			return c, err
		}
	}
	if err := errors.Join(c.addHardware("mac", e.MAC), c.addHardware("infiniband-guid", e.InfinibandGUID)); err != nil {
		return c, err
	}
	for _, key := range slices.Sorted(maps.Keys(e.CNIArgs)) {
		if err := c.addArg("cni-args."+key, key, e.CNIArgs[key]); err != nil {
			return c, err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(args)) {
		if err := c.addArg("CNI argument "+key, key, args[key]); err != nil {
			return c, err
		}
	}
	return c, nil
}

// addArg adds what an argument chooses. A list is one of JSON, or has commas.
func (c *Choice) addArg(position, key string, value any) error {
	add := c.addHardware
	switch strictjson.Fold(key) {
	case strictjson.Fold("ip"), strictjson.Fold("ips"):
		add = c.addAddress
	case strictjson.Fold("mac"), strictjson.Fold("guid"), strictjson.Fold("infinibandGUID"):
	default:
		return nil
	}
	var texts []string
	switch value := value.(type) {
	case string:
		texts = strings.Split(value, ",")
	case []string:
		texts = value
	case []any:
		for _, element := range value {
			texts = append(texts, fmt.Sprint(element)) // another one than a text is no address
		}
	case nil:
	default:
		return &Error{position, fmt.Sprint(value), "want a text, or a list of texts"}
	}
	for _, text := range texts {
		if err := add(position, strings.TrimSpace(text)); err != nil {
			return err
		}
	}
	return nil
}

func (c *Choice) addAddress(position, text string) error {
	if text == "" {
		return nil
	}
	address, err := parseIP(text)
	if err != nil {
		return &Error{position, text, wantAddress}
	}
	bits := -1
	if prefix, err := netip.ParsePrefix(text); err == nil {
		if bits = prefix.Bits(); address.Is4In6() {
			bits -= 96
		}
	}
	c.Addresses = append(c.Addresses, netip.PrefixFrom(address.Unmap(), bits))
	return nil
}

func (c *Choice) addHardware(position, text string) error {
	if text == "" {
		return nil
	}
	address, err := net.ParseMAC(text)
	if err != nil {
		return &Error{position, text, "want a hardware address, as in 02:00:00:00:00:01"}
	}
	c.Hardware = append(c.Hardware, address.String())
	return nil
}
