// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadagent

import (
	"cmp"
	"fmt"
)

// localhost is the address of an agent that is alone.
const localhost = "127.0.0.1"

// Config is the configuration of an agent that is server and client, on one address of the loopback
// interface alone, with the driver raw_exec.
type Config struct {
	DataDir string
	// Address tells agents of one test from each other. Empty: 127.0.0.1.
	Address string
	// Client and Options are further lines of the client and of its options.
	Client, Options string
	// More are lines at the top.
	More string
}

const config = `
data_dir  = %q
bind_addr = %[2]q

disable_update_check = true # the sandbox has no other network

advertise {
  http = %[2]q
  rpc  = %[2]q
  serf = %[2]q
}
telemetry {
  collection_interval = "60s" # of what no test reads
}
server {
  enabled          = true
  bootstrap_expect = 1
}
client {
  enabled           = true
  servers           = ["%[2]s:4647"]
  network_interface = "lo"
  options = {
    "fingerprint.denylist" = "env_aws,env_gce,env_azure,env_digitalocean"
    %[3]s
  }
  %[4]s
}
plugin "raw_exec" {
  config {
    enabled = true
  }
}
%[5]s
`

// String returns the configuration as HCL.
func (c Config) String() string {
	return fmt.Sprintf(config, c.DataDir, cmp.Or(c.Address, localhost), c.Options, c.Client, c.More)
}
