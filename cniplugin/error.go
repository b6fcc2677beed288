// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin

import (
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/agent/api"
)

// cniError returns the error object of the CNI specification. Nomad shows its
// message to the author of the job, so it is one line.
func cniError(err error) *types.Error {
	msg := line(err)
	for _, known := range hints {
		if strings.Contains(msg, known.text) {
			msg += ": " + known.hint
			break
		}
	}
	return types.NewError(api.CodeOf(err), msg, "")
}

func line(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(c rune) bool { return c == '\n' || c == '\r' }), "; ")
}

// hints are added to error messages of the reference plugins.
var hints = []struct{ text, hint string }{
	{"no IP addresses available in range set", "all addresses of the network are in use: stop an allocation, or enlarge the network's range"},
	{"is not available in range set", "another allocation has this address, or it is not in the network's range: choose another one, or remove \"ips\""},
	{"requested IP address", "choose an address in the network's range, or remove \"ips\""},
	{"duplicate allocation is not allowed", "a lease of this allocation still exists: run allocnet check and allocnet detach on the client"},
	{"Link not found", "a link of the network is missing on this client: report it to the cluster operator"},
}
