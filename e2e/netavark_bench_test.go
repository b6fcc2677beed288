// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// netavark is the network program of podman with the networks of benchConf. NETAVARK_BIN names
// the program. Addresses are podman's to choose, so it does not have to find free ones.
func netavark(b *testing.B, path, backend string) subject {
	b.Helper()
	dir := b.TempDir()
	run := func(verb string, k int, id, netns string) error {
		cmd := exec.Command(path, "--config", dir, verb, netns)
		cmd.Env = append(os.Environ(), "NETAVARK_FW="+backend)
		cmd.Stdin = bytes.NewReader(netavarkConf(b, k, id))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", verb, err, out)
		}
		return nil
	}
	return subject{
		name: "netavark", forked: true,
		add: func(k int, id, netns string) error { return run("setup", k, id, netns) },
		del: func(k int, id, netns string) error { return run("teardown", k, id, netns) },
	}
}

// netavarkHasNFTables tells whether this netavark is 1.10 or newer.
func netavarkHasNFTables(b *testing.B, path string) bool {
	b.Helper()
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		b.Fatal(err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(out), "netavark %d.%d", &major, &minor); err != nil {
		b.Fatalf("%s: %v", out, err)
	}
	return major > 1 || minor >= 10
}

func netavarkConf(b *testing.B, k int, id string) []byte {
	b.Helper()
	networks, info := map[string]any{}, map[string]any{}
	for i := range k {
		name := fmt.Sprintf("net%d", i)
		subnet := fmt.Sprintf("10.%d.0", 120+i)
		networks[name] = map[string]any{"interface_name": fmt.Sprintf("eth%d", i), "static_ips": []string{subnet + ".2"}}
		info[name] = map[string]any{
			"name": name, "id": strings.Repeat(fmt.Sprintf("%02x", i), 32), "driver": "bridge", "network_interface": "podman" + name,
			"subnets":  []any{map[string]any{"subnet": subnet + ".0/16", "gateway": subnet + ".1"}},
			"internal": i > 0, "dns_enabled": false, "ipv6_enabled": false, "ipam_options": map[string]string{"driver": "host-local"},
		}
	}
	conf, err := json.Marshal(map[string]any{
		"container_id": strings.Repeat("ab", 32), "container_name": id, "networks": networks, "network_info": info,
		"port_mappings": []any{map[string]any{"host_ip": "", "container_port": 80, "host_port": 4000, "range": 1, "protocol": "tcp"}},
	})
	if err != nil {
		b.Fatal(err)
	}
	return conf
}
