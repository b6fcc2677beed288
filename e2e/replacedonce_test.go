// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"os"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestReplacedOnceOnly: an attachment that was removed in process, because its plugins are not
// installed any more, is not removed again when another one of the allocation could not be. By
// then another program may have an interface of its name.
func TestReplacedOnceOnly(t *testing.T) {
	h := newHost(t)
	h.onlyOwn = true
	defer os.RemoveAll("/run/pair")
	sandbox.WriteFile(t, h.conf+"/60-pair.conflist", `{"cniVersion": "1.0.0", "name": "pair", "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "dataDir": "/run/pair", "ranges": [[{"subnet": "10.97.0.0/24"}]]}}]}`)
	sandbox.WriteFile(t, h.conf+"/61-stuck.conf", `{"cniVersion": "1.0.0", "name": "stuck", "type": "fakecni", "fake": {"verbs": {"DEL": {"code": 999, "msg": "stuck"}}}}`)
	h.linkPlugins("ptp", "host-local")
	t.Setenv("ALLOCNET_EXECUTOR", "plugins")
	sandbox.Run(t, "ip", "netns", "add", "c1")
	defer sandbox.Run(t, "ip", "netns", "del", "c1")
	defer h.allocnet("cleanup", "c1", "--forget")
	h.attach("c1", "--netns", "/run/netns/c1", "--networks", "pair@net1,stuck@net2")
	h.removePlugins("ptp", "host-local")
	h.refuse(1, []string{"stuck"}, "detach", "c1")
	sandbox.Run(t, "ip", "-n", "c1", "link", "add", "net1", "type", "veth", "peer", "name", "net9") // by another program
	h.refuse(1, []string{"stuck"}, "detach", "c1")
	sandbox.Run(t, "ip", "-n", "c1", "link", "show", "net1")
}
