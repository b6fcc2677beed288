// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package operation

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"github.com/allocnet/allocnet/state"
)

// TestAdvertisedLeases: addresses by router advertisements are told with their source.
func TestAdvertisedLeases(t *testing.T) {
	a := state.Attachment{
		Network: "lan6", Interface: "eth0", Updated: time.Unix(1, 0), Advertised: []netip.Prefix{netip.MustParsePrefix("fd00::5/64")},
		Result: json.RawMessage(`{"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.5/24"}]}`),
	}
	all := LeasesOf(a, nil)
	if len(all) != 1 || all[0].Plugin != "slaac" || all[0].Address.String() != "fd00::5" || all[0].Pool != "lan6" || !all[0].Since.Equal(a.Updated) || !all[0].Expires.IsZero() {
		t.Errorf("got %+v", all)
	}
}
