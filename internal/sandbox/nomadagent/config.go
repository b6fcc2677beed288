// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadagent

import "fmt"

// Config is the configuration of an agent that is server and client, on 127.0.0.1 alone, with
// the driver raw_exec.
type Config struct {
	DataDir string
	// Client and Options are further lines of the client and of its options.
	Client, Options string
	// More are lines at the top.
	More string
}

const config = `
data_dir  = "%s"
bind_addr = "127.0.0.1"
advertise {
  http = "127.0.0.1"
  rpc  = "127.0.0.1"
  serf = "127.0.0.1"
}
server {
  enabled          = true
  bootstrap_expect = 1
}
client {
  enabled           = true
  servers           = ["127.0.0.1:4647"]
  network_interface = "lo"
  options = {
    "fingerprint.denylist" = "env_aws,env_gce,env_azure,env_digitalocean"
    %s
  }
  %s
}
plugin "raw_exec" {
  config {
    enabled = true
  }
}
%s
`

// String returns the configuration as HCL.
func (c Config) String() string {
	return fmt.Sprintf(config, c.DataDir, c.Options, c.Client, c.More)
}
