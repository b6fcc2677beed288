// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/agent/api"
)

// cniError makes the error object that the specification asks for. Nomad shows
// its message to the job's author, so it is one line.
func cniError(err error) *types.Error {
	msg := line(err)
	for _, known := range advice {
		if strings.Contains(msg, known.text) {
			msg += ": " + known.what
			break
		}
	}
	return types.NewError(api.CodeOf(err), msg, "")
}

// line joins the lines of an error.
func line(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(c rune) bool { return c == '\n' || c == '\r' }), "; ")
}

// advice says what to do about what plugins say.
var advice = []struct{ text, what string }{
	{"no IP addresses available in range set", "the network's addresses are used up: stop what needs none, or have its range enlarged"},
	{"is not available in range set", "another allocation has this address, or it is none of the network's: choose another, or leave \"ips\" out"},
	{"requested IP address", "choose an address of the network's range, or leave \"ips\" out"},
	{"duplicate allocation is not allowed", "the network still has an address for this allocation: run allocnet check and allocnet detach on the client"},
	{"Link not found", "the network's link is missing on this client: tell who runs it"},
}
