// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package resolvconf

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// parse reads the format of resolv.conf(5). Of the lines domain and search the last
// counts.
func parse(text string) Config {
	var c Config
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		switch values := words[1:]; words[0] {
		case "nameserver":
			c.Servers = append(c.Servers, values[0])
		case "domain":
			c.Domain, c.Searches = values[0], nil
		case "search":
			c.Domain, c.Searches = "", values
		case "options":
			c.Options = append(c.Options, values...)
		}
	}
	return c
}

// format returns the lines of a configuration that is normal.
func (c Config) format() string {
	var b strings.Builder
	for _, server := range c.Servers {
		fmt.Fprintf(&b, "nameserver %s\n", server)
	}
	for _, line := range []struct {
		key    string
		values []string
	}{{"search", c.Searches}, {"options", c.Options}} {
		if len(line.values) > 0 {
			fmt.Fprintf(&b, "%s %s\n", line.key, strings.Join(line.values, " "))
		}
	}
	return b.String()
}

// Host returns the host's configuration as another network namespace can use it: of the
// first file that has servers outside of the host, these servers. A server of the
// loopback interface, such as 127.0.0.53, answers only on the host, as does an unspecified
// address, and the scope of an IPv6 link-local address is one of its interfaces. Those of
// IPv4 are routed: clouds have resolvers at 169.254.169.253 and .254. Without such a file
// there are no servers. Files that do not exist are skipped.
func Host(files ...string) (Config, error) {
	var first *Config
	for _, path := range files {
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Config{}, fmt.Errorf("resolver configuration of the host: %w", err)
		}
		c := parse(string(data))
		c.Servers = slices.DeleteFunc(c.Servers, onHostOnly)
		c, _ = c.Normalize()
		if len(c.Servers) > 0 {
			return c, nil
		}
		if first == nil {
			first = &c
		}
	}
	if first == nil {
		return Config{}, nil
	}
	return *first, nil
}

func onHostOnly(server string) bool {
	address, err := netip.ParseAddr(server)
	address = address.Unmap()
	return err != nil || address.IsLoopback() || address.IsUnspecified() || address.Is6() && address.IsLinkLocalUnicast()
}
