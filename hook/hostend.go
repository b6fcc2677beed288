// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	types "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/hook/internal/kernel"
)

// findEnd returns the name that the end of a pair on the host has now; empty if it is gone. An operator may have renamed
// it.
func findEnd(host kernel.Host, end *types.Interface) (string, error) {
	_, there, err := host.LinkMTU(end.Name)
	if err != nil || there {
		return end.Name, err
	}
	return host.FindLink(end.Name, "veth", end.Mac)
}
