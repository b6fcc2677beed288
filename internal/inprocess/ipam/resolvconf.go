// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"bufio"
	"os"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/internal/files"
)

// parseResolvConf reads a file in the format of resolv.conf(5). A later "domain" replaces
// an earlier one; the other keywords add up.
func parseResolvConf(path string) (types.DNS, error) {
	file, err := files.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return types.DNS{}, err
	}
	defer file.Close() //nolint:errcheck // read only
	var dns types.DNS
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 2 {
			continue
		}
		switch words[0] { // a comment is no keyword
		case "nameserver":
			dns.Nameservers = append(dns.Nameservers, words[1])
		case "domain":
			dns.Domain = words[1]
		case "search":
			dns.Search = append(dns.Search, words[1:]...)
		case "options":
			dns.Options = append(dns.Options, words[1:]...)
		}
	}
	return dns, lines.Err()
}
