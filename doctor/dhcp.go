// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// dhcpSocket is that of the daemon of the plugin dhcp, unless a network has another one.
const dhcpSocket = "/run/cni/dhcp.sock"

// dhcpDaemons reports networks whose plugin dhcp is executed without its daemon.
func (d *Doctor) dhcpDaemons(r *Report, networks []network) {
	for _, n := range d.byPlugins(networks) {
		for _, p := range n.Chain() {
			if p.IPAMType != "dhcp" {
				continue
			}
			conf := struct{ DaemonSocketPath string }{}
			if err := json.Unmarshal(p.IPAM, &conf); err != nil { // the plugin reports it
				continue
			}
			path := cmp.Or(conf.DaemonSocketPath, dhcpSocket)
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				r.addError(n.Path, fmt.Sprintf("network %q needs the dhcp daemon: its socket %s is missing%s", n.Name, path, d.why(n)),
					"systemctl enable --now allocnet.service, whose agent asks for leases itself, or systemctl enable --now allocnet-cni-dhcp.socket")
			}
		}
	}
}
