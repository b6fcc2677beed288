// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
)

// client has a limit: calls hang while the leader is stopped.
var client = http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// API asks the servers, one after the other until one answers, for a path below /v1/. The first is
// the one that has answered last: others may be stopped. Body and answer may be nil.
func (c *Cluster) API(method, path string, body, answer any) error {
	var errs []error
	first := int(c.answered.Load())
	for i := range c.Servers {
		n := (first + i) % len(c.Servers)
		if !c.Servers[n].Runs(Nomad) {
			errs = append(errs, fmt.Errorf("%s does not run", c.Servers[n].Name))
			continue
		}
		err := c.ask(c.Servers[n], method, path, body, answer)
		if err == nil {
			c.answered.Store(int32(n))
			return nil
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("no server has answered: %w", errors.Join(errs...))
}

// ask is API for one machine.
func (c *Cluster) ask(m *Machine, method, path string, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequest(method, "http://"+m.Address.String()+":4646/v1/"+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	request.Header.Set("X-Nomad-Token", c.Token)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it is read
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body) // a part of the error
		return fmt.Errorf("%s: %s %s: %s: %s", m.Name, method, path, response.Status, text)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// Leader is the server that the servers say is the leader. The one that is not asked, if any, is not
// it.
func (c *Cluster) Leader(not *Machine) (*Machine, error) {
	var errs []error
	for _, asked := range c.Servers {
		if asked == not || !asked.Runs(Nomad) {
			continue
		}
		var address string
		errs = append(errs, c.ask(asked, http.MethodGet, "status/leader", nil, &address))
		for _, m := range c.Servers {
			if m != not && strings.HasPrefix(address, m.Address.String()+":") {
				return m, nil
			}
		}
		errs = append(errs, fmt.Errorf("%s says that the leader is %q, want one of the servers", asked.Name, address))
	}
	return nil, errors.Join(errs...)
}

// Node is a node in Nomad's API.
type Node struct{ ID, Name, Address, Status, SchedulingEligibility string }

// Nodes lists the nodes that a machine has been, the newest last.
func (c *Cluster) Nodes(m *Machine) (found []Node, err error) {
	type node struct {
		Node
		CreateIndex uint64
	}
	var nodes []node
	if err := c.API(http.MethodGet, "nodes", nil, &nodes); err != nil {
		return nil, err
	}
	slices.SortFunc(nodes, func(a, b node) int { return cmp.Compare(a.CreateIndex, b.CreateIndex) })
	for _, node := range nodes {
		if node.Name == m.Name {
			found = append(found, node.Node)
		}
	}
	return found, nil
}

// RequireStatus is an error unless the newest node of a machine has a status.
func (c *Cluster) RequireStatus(m *Machine, status string) error {
	return c.requireNode(m, status, func(n Node) bool { return n.Status == status })
}

func (c *Cluster) requireNode(m *Machine, want string, is func(Node) bool) error {
	nodes, err := c.Nodes(m)
	if err == nil && (len(nodes) == 0 || !is(nodes[len(nodes)-1])) {
		err = fmt.Errorf("the nodes of %s are %v, want the last to be %s", m.Name, nodes, want)
	}
	return err
}

// RequireAddress is an error unless the newest node of a machine is ready with its address.
func (c *Cluster) RequireAddress(m *Machine) error {
	address := m.Address.String()
	return c.requireNode(m, "ready at "+address, func(n Node) bool { return n.Address == address && n.Status == "ready" })
}

// AwaitReady waits until each client that runs Nomad is ready.
func (c *Cluster) AwaitReady() error {
	return Await("the nodes are ready", func() error {
		for _, m := range c.Clients {
			if !m.Runs(Nomad) {
				continue
			}
			if err := c.RequireStatus(m, "ready"); err != nil {
				return err
			}
		}
		return nil
	})
}

// CLI runs Nomad's command line with the management token on a machine, by default the
// first client.
func (c *Cluster) CLI(words ...string) (string, error) {
	m := c.Servers[0]
	for _, server := range c.Servers {
		if server.Runs(Nomad) {
			m = server
			break
		}
	}
	cmd := m.Command(append([]string{"nomad"}, words...)...)
	cmd.Env = append(cmd.Env, "NOMAD_TOKEN="+c.Token)
	out, err := output(cmd)
	if err != nil {
		return string(out), fmt.Errorf("nomad %s: %w: %s", strings.Join(words, " "), err, out)
	}
	return string(out), nil
}

// Drain moves the allocations of a client to others, or makes it eligible again.
func (c *Cluster) Drain(m *Machine, away bool) error {
	return Await("drain "+m.Name, func() error {
		nodes, err := c.Nodes(m)
		if err != nil || len(nodes) == 0 {
			return errors.Join(err, fmt.Errorf("%d nodes are named %s, want one", len(nodes), m.Name))
		}
		body := map[string]any{"MarkEligible": !away}
		if away {
			body["DrainSpec"] = map[string]any{"Deadline": time.Hour, "IgnoreSystemJobs": true}
		}
		return c.API(http.MethodPost, "node/"+nodes[len(nodes)-1].ID+"/drain", body, nil)
	})
}

// RevokeToken deletes the token of the allocnet agent of a client.
func (c *Cluster) RevokeToken(m *Machine) error {
	secret, err := os.ReadFile(m.Path(tokenFile))
	if err != nil {
		return err
	}
	var tokens []struct{ Name, AccessorID string }
	if err := c.API(http.MethodGet, "acl/tokens", nil, &tokens); err != nil {
		return err
	}
	for _, token := range tokens {
		var full struct{ SecretID string }
		if err := c.API(http.MethodGet, "acl/token/"+token.AccessorID, nil, &full); err != nil {
			return err
		}
		if full.SecretID == strings.TrimSpace(string(secret)) {
			return c.API(http.MethodDelete, "acl/token/"+token.AccessorID, nil, nil)
		}
	}
	return fmt.Errorf("the token of %s is not known to Nomad", m.Name)
}
