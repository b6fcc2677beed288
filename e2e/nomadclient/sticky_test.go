// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadclient

import (
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadclient"
	"github.com/allocnet/allocnet/nomad"
)

// kept is a pool of this host with addresses that stay with a key of a job.
const kept = `{"cniVersion": "1.0.0", "name": "kept", "plugins": [{"type": "macvlan", "master": "uplink", "ipam": {
	"type": "allocnet-ipam", "pool": "kept", "stateDir": "` + dir + `/kept", "dataDir": "` + dir + `/kept/leases", "configDir": "` + dir + `/none", "ranges": [{"subnet": "10.93.0.0/24"}],
	"blockSize": {"4": 28}, "reserved": ["10.93.0.16/28"], "cooldown": "0s", "sticky": true}}]}`

// TestSticky: the argument ADDRESS_KEY, or else the index, has the address of before when a job is started again.
// No other job gets it by what it writes of itself. Without the identity of allocations no address is kept.
func TestSticky(t *testing.T) {
	eachVersion(t, func(h *host) {
		h.write(confDir+"/49-kept.conflist", kept)
		h.Cleanup(func() { sandbox.Run(h.T, "rm", "-rf", dir+"/kept") })
		keyed := args{"networks": "kept", "ADDRESS_KEY": "first"}
		owner := group("owner", keyed)
		first := h.keptAddress(owner)
		if reserved := strings.HasPrefix(first, "10.93.0.1") || strings.HasPrefix(first, "10.93.0.2"); h.config.Version.Has(nomad.Identity) && !reserved {
			h.Errorf("the address is %s, want a reserved one", first)
		}
		thief := group("thief", args{"networks": "kept", "ADDRESS_KEY": "first", "NOMAD_JOB_ID": "owner", "NOMAD_GROUP_NAME": "g"})
		if got := h.keptAddress(thief); h.config.Version.Has(nomad.Identity) && got == first {
			h.Errorf("another job got %s, which is kept for the first one", got)
		}
		if got := h.keptAddress(owner); h.config.Version.Has(nomad.Identity) && got != first {
			h.Errorf("started again the job has %s, had %s", got, first)
		}
	})
}

// keptAddress runs and stops a job, and returns its address on the network "kept".
func (h *host) keptAddress(g nomadclient.Group) string {
	h.Helper()
	a := h.one(g)
	got := address(h.T, h.setup(a), "net1")
	h.stop(a)
	return got
}
