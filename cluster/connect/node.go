// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/rest"
	"github.com/allocnet/allocnet/internal/files"
)

type node struct {
	// Address is that of the Nomad agent that was asked, and Asked is when.
	Address string    `json:"address"`
	Asked   time.Time `json:"asked"`
	ID      string    `json:"id"`
	// Name and Region are empty if the Nomad agent does not tell them.
	Name   string `json:"name,omitempty"`
	Region string `json:"region,omitempty"`
}

const (
	// fresh is how long a node is not asked for again. Another one, of a client whose data_dir
	// was lost, gets to the entries of this host's blocks then.
	fresh = 10 * time.Minute
	// asking limits a request about the node: the store is still to be asked.
	asking = 2 * time.Second
)

type nodeCache struct {
	dir string
	// configured is the node's ID. Empty: the agent is asked.
	configured string
	client     *rest.Client
	// silent is when the agent did not answer last.
	silent time.Time
}

func (c *nodeCache) path() string { return filepath.Join(c.dir, "nomad.json") }

// node returns the cached node if it is fresh, or if the agent does not answer: it is then not asked again at once.
func (c *nodeCache) node(ctx context.Context) (node, error) {
	cached, known := c.read()
	age, silence := time.Since(cached.Asked), time.Since(c.silent)
	if known && (age >= 0 && age < fresh || silence < asking) {
		return cached, nil
	}
	n, err := c.ask(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		c.silent = time.Now()
	}
	switch {
	case err == nil:
		return n, files.ReplaceJSON(c.path(), n, files.Options{Unlocked: true})
	case known:
		return cached, nil
	case c.configured != "":
		return node{ID: c.configured}, nil
	}
	return node{}, fmt.Errorf("who this node is: %w; or configure node_id", err)
}

func (c *nodeCache) read() (node, bool) {
	data, err := files.Read(c.path())
	var n node
	if err != nil || json.Unmarshal(data, &n) != nil { // then it is asked for
		return node{}, false
	}
	return n, n.ID != "" && n.Address == c.client.Address() && (c.configured == "" || n.ID == c.configured)
}

// mostBytes of an answer are read.
const mostBytes = 4 << 20

func (c *nodeCache) ask(ctx context.Context) (node, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, asking, fmt.Errorf("no answer within %s: %w", asking, context.DeadlineExceeded))
	defer cancel()
	answer, err := c.client.Do(ctx, rest.Request{Method: http.MethodGet, Path: "/v1/agent/self", MostBytes: mostBytes})
	if err != nil {
		return node{}, storeError(err)
	}
	var s struct {
		Config struct{ NodeName, Region string }
		Stats  map[string]map[string]string
	}
	if err := json.Unmarshal(answer.Body, &s); err != nil {
		return node{}, fmt.Errorf("nomad at %s: GET /v1/agent/self: %w", c.client.Address(), err)
	}
	n := node{Address: c.client.Address(), Asked: time.Now(), ID: s.Stats["client"]["node_id"], Name: s.Config.NodeName, Region: s.Config.Region}
	if c.configured != "" {
		n.ID = c.configured
	}
	if n.ID == "" {
		return node{}, fmt.Errorf("nomad at %s is not a client: configure the address of this host's client", c.client.Address())
	}
	if n.Name == "" {
		n.Name, err = os.Hostname() // as the client does
	}
	return n, err
}

// storeError is the error of a request, for those who handle the errors of a store.
func storeError(err error) error {
	if answer, ok := errors.AsType[*rest.Error](err); ok && answer.Status != http.StatusForbidden {
		return fmt.Errorf("%w: %w", ipam.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w; the token needs a policy with: %s", ipam.ErrRefused, err, policy)
}

// policy is what the questions about nodes and allocations need, in Nomad's HCL.
const policy = `namespace "*" { capabilities = ["read-job"] } node { policy = "read" } agent { policy = "read" }`
