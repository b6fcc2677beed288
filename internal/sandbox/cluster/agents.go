// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// The daemons of the machines.
const (
	Nomad = "nomad"
	Agent = "allocnet"
)

// DriverDir is the directory of Nomad's driver plugins, for a layout whose clients use them.
const DriverDir = "/opt/nomad/plugins"

// namespace is Nomad's namespace of the pools' variables.
const namespace = "allocnet-ipam"

// tokenFile is the token of a client's allocnet agent.
const tokenFile = "/etc/allocnet.d/nomad.token"

const common = `
name      = %q
data_dir  = "/var/lib/nomad"
bind_addr = "0.0.0.0"
log_level = "DEBUG"

disable_update_check = true # the machines have no other network

advertise {
  http = %[2]q
  rpc  = %[2]q
  serf = %[2]q
}
acl {
  enabled = true
}
telemetry {
  collection_interval = "60s" # of what no test reads
}
`

// A node whose client has ended is down within 8 s.
const serverPart = `
server {
  enabled                = true
  bootstrap_expect       = 3
  heartbeat_grace        = "5s"
  min_heartbeat_ttl      = "2s"
  failover_heartbeat_ttl = "8s"
  server_join {
    retry_join     = ["172.31.0.1", "172.31.0.2", "172.31.0.3"]
    retry_interval = "1s"
  }
}
`

const clientPart = `
client {
  enabled           = true
  servers           = ["172.31.0.1", "172.31.0.2", "172.31.0.3"]
  network_interface = "` + management + `"
  cpu_total_compute = 100000
  memory_total_mb   = 100000
  cni_path          = "/opt/cni/bin"
  cni_config_dir    = "/opt/cni/config"
  options = {
    "driver.allowlist"     = "raw_exec"
    "fingerprint.denylist" = "env_aws,env_gce,env_azure,env_digitalocean"
  }
}
plugin "raw_exec" {
  config {
    enabled = true
  }
}
`

const agentConfig = `
nomad {
  token_file   = "` + tokenFile + `"
  events       = true
  job_networks = true
}
reconcile {
  interval = "5s"
}
ipam {
  store     = "nomad"
  namespace = "` + namespace + `"
}
`

// StartServer boots a server and starts Nomad on it.
func (c *Cluster) StartServer(m *Machine) error {
	if err := m.on(); err != nil {
		return err
	}
	return c.RestartServer(m)
}

// RestartServer starts Nomad on a server that is on.
func (c *Cluster) RestartServer(m *Machine) error { return m.startNomad(serverPart, c.layout.Server) }

// startNomad starts Nomad with a configuration, in which more takes precedence.
func (m *Machine) startNomad(part, more string) error {
	const path, morePath = "/var/lib/nomad.hcl", "/var/lib/nomad-more.hcl"
	text := fmt.Sprintf(common, m.Name, m.Address.String()) + part
	if err := errors.Join(m.Write(path, text), m.Write(morePath, more)); err != nil {
		return err
	}
	return m.Start(Nomad, "env", "GOGC=400", "nomad", "agent", "-config", path, "-config", morePath)
}

// StartClient boots a client, installs what docs/cluster.md says, and starts Nomad and the
// allocnet agent on it.
func (c *Cluster) StartClient(m *Machine) error {
	if err := c.BootClient(m); err != nil {
		return err
	}
	if err := c.StartNomad(m); err != nil {
		return err
	}
	return m.StartAgent()
}

// BootClient is StartClient without Nomad and the agent.
func (c *Cluster) BootClient(m *Machine) error {
	if err := m.on(); err != nil {
		return err
	}
	return c.Install(m)
}

// StartNomad starts Nomad on a client that is on, and waits until it answers.
func (c *Cluster) StartNomad(m *Machine) error {
	if err := m.startNomad(clientPart, c.layout.Client); err != nil {
		return err
	}
	return Await("Nomad of "+m.Name+" answers", func() error {
		_, err := m.Run("curl", "--silent", "--output", "/dev/null", "http://127.0.0.1:4646/v1/agent/health")
		return err
	})
}

// StartAgent starts the allocnet agent on a client that is on.
func (m *Machine) StartAgent() error { return m.Start(Agent, "allocnet", "agent") }

// Install writes the networks and the configuration of a client.
func (c *Cluster) Install(m *Machine) error {
	if err := m.links(); err != nil {
		return err
	}
	if err := c.writeNetworks(m); err != nil {
		return err
	}
	if err := c.Configure(m, ""); err != nil {
		return err
	}
	if _, err := os.Stat(m.Path(tokenFile)); err == nil {
		return nil
	}
	return c.GiveToken(m)
}

// Configure writes the configuration of the allocnet agent of a client, with more than that of others.
func (c *Cluster) Configure(m *Machine, more string) error {
	return m.Write("/etc/allocnet.d/agent.hcl", agentConfig+c.layout.Agent+more)
}

// GiveToken makes another token for the allocnet agent of a client.
func (c *Cluster) GiveToken(m *Machine) error {
	token, err := c.newToken(m.Name)
	if err != nil {
		return err
	}
	return m.Write(tokenFile, token+"\n")
}

// links makes the directories of the plugins, those of CNI and that of Nomad's drivers.
func (m *Machine) links() error {
	dir, drivers := m.Path("/opt/cni/bin"), m.Path(DriverDir)
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.MkdirAll(drivers, 0o755)); err != nil {
		return err
	}
	if err := os.Symlink(programs+"/allocnet", drivers+"/allocnet"); err != nil && !os.IsExist(err) {
		return err
	}
	reference, _ := filepath.Glob(sandbox.PluginDir() + "/*")
	own, _ := filepath.Glob(programs + "/allocnet-*")
	for _, program := range append(reference, own...) {
		link := filepath.Join(dir, filepath.Base(program))
		if err := os.Symlink(program, link); err != nil && !os.IsExist(err) {
			return err
		}
	}
	return nil
}

// bootstrap makes the management token, the namespace of the variables and the policy. The token is chosen here: a
// server that is slow may have made it although its answer came too late, and makes no second one.
func (c *Cluster) bootstrap() error {
	c.Token = "6b0c4f5e-0d5a-4d6e-9a43-2f6f1c0f7a11"
	err := Await("the servers have a leader", func() error {
		err := c.API(http.MethodPost, "acl/bootstrap", map[string]string{"BootstrapSecret": c.Token}, nil)
		if err != nil && c.API(http.MethodGet, "acl/token/self", nil, nil) == nil {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	body := map[string]string{"Name": namespace}
	if err := Await("the namespace is made", func() error { return c.API(http.MethodPost, "namespace/"+namespace, body, nil) }); err != nil {
		return err
	}
	policy := map[string]string{"Name": "allocnet", "Rules": c.Rules}
	return Await("the policy is made", func() error { return c.API(http.MethodPost, "acl/policy/allocnet", policy, nil) })
}

func (c *Cluster) newToken(name string) (string, error) {
	var token struct{ SecretID string }
	body := map[string]any{"Name": "allocnet " + name, "Type": "client", "Policies": []string{"allocnet"}}
	err := Await("the token is made", func() error { return c.API(http.MethodPost, "acl/token", body, &token) })
	return strings.TrimSpace(token.SecretID), err
}

// Policy returns the ACL policy of docs/cluster.md.
func Policy() (string, error) { return Example("policy", "hcl") }

// Example returns the code block of docs/cluster.md that follows a mark.
func Example(mark, language string) (string, error) {
	page, err := os.ReadFile(sandbox.Root() + "/docs/cluster.md")
	if err != nil {
		return "", err
	}
	var text string
	for _, block := range regexp.MustCompile("(?s)<!-- "+mark+" -->\n *```"+language+"\n(.*?)```").FindAllSubmatch(page, -1) {
		text += regexp.MustCompile("(?m)^   ").ReplaceAllString(string(block[1]), "")
	}
	if text == "" {
		return "", fmt.Errorf("docs/cluster.md has no example that is marked as %q", mark)
	}
	return text, nil
}
