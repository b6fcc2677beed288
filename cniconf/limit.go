// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"fmt"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// limits are the keys of the plugin bandwidth that limit packets.
type limits struct {
	IngressRate  *uint64 `json:"ingressRate"`
	IngressBurst *uint64 `json:"ingressBurst"`
	EgressRate   *uint64 `json:"egressRate"`
	EgressBurst  *uint64 `json:"egressBurst"`
}

// CheckLimits refuses a network in which several plugins bandwidth limit packets of one direction, if an attachment asks for limits of
// these directions: the kernel has one limit for each, and the second plugin fails. One that is configured with a limit does not follow
// the attachment.
func CheckLimits(n *Network, ingress, egress bool) error {
	count := map[string]int{}
	for _, p := range n.Chain() {
		if p.Type != "bandwidth" {
			continue
		}
		limitsIngress, limitsEgress := p.limitsPackets(ingress, egress)
		for direction, limited := range map[string]bool{"ingress": limitsIngress, "egress": limitsEgress} {
			if limited {
				count[direction]++
			}
		}
	}
	for _, direction := range []string{"ingress", "egress"} {
		if count[direction] > 1 {
			return errdefs.As(errdefs.Refused, fmt.Errorf("%s: %d plugins bandwidth limit %s, and an interface has one limit of each direction: want it of one plugin", n.Path, count[direction], direction))
		}
	}
	return nil
}

// limitsPackets tells which directions a plugin bandwidth limits, if an attachment asks for limits of these.
func (p Plugin) limitsPackets(ingress, egress bool) (limitsIngress, limitsEgress bool) {
	isSet := func(rate *uint64) bool { return rate != nil && *rate != 0 }
	if p.IngressRate != nil || p.IngressBurst != nil || p.EgressRate != nil || p.EgressBurst != nil {
		return isSet(p.IngressRate), isSet(p.EgressRate)
	}
	return ingress && p.Capabilities["bandwidth"], egress && p.Capabilities["bandwidth"]
}
