// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Command coredns is CoreDNS with the plugins of docs/names.md alone, so that it is built soon.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/nomad"
)

func main() {
	dnsserver.Directives = []string{"bind", "nomad", "forward"}
	coremain.Run()
}
