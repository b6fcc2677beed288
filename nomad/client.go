// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/api"
)

// Config says which Nomad is asked, and how. The zero value asks the agent of
// this host without a token.
type Config struct {
	// Address is a Nomad agent's, as https://127.0.0.1:4646 or unix:///socket.
	// Empty: http://127.0.0.1:4646.
	Address string
	// TokenFile holds the ACL token. It is read anew for each request, so that
	// it may be rotated. Empty: no token.
	TokenFile string
	// CAFile, CertFile, KeyFile and TLSName are for TLS, as Nomad's own
	// clients have them. Empty: the system's, none, none, the address's.
	CAFile, CertFile, KeyFile, TLSName string
	// NodeID is this host's. Empty: the agent at Address is asked, which then
	// has to be this host's.
	NodeID string
	// WishDir keeps what was read of the networks that jobs ask for. Required
	// for Networks.
	WishDir string
	// Logger gets a line for what goes wrong on the way. Default: none.
	Logger hclog.Logger
}

// Client asks one Nomad agent about one host. It may be used concurrently.
type Client struct {
	config Config
	api    *api.Client
	log    hclog.Logger
	// pause is watchPause; tests replace it.
	pause time.Duration

	mu   sync.Mutex
	node string // once it is known
	// live is what lives, as Watch has been told; nil when that is not known.
	live map[string]bool
	// lived is the last that was known.
	lived map[string]bool
}

// New returns a client. Nothing is asked yet.
func New(c Config) (*Client, error) {
	if c.Address == "" {
		c.Address = "http://127.0.0.1:4646"
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	client, err := api.NewClient(&api.Config{
		Address: c.Address,
		TLSConfig: &api.TLSConfig{
			CACert: c.CAFile, ClientCert: c.CertFile, ClientKey: c.KeyFile, TLSServerName: c.TLSName,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("nomad address %q: %w", c.Address, err)
	}
	return &Client{config: c, api: client, log: c.Logger, pause: watchPause, node: c.NodeID}, nil
}

// query returns the options of a request. Namespace "*" is all that the token
// may read.
func (c *Client) query(ctx context.Context) (*api.QueryOptions, error) {
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	return (&api.QueryOptions{Namespace: "*", AuthToken: token}).WithContext(ctx), nil
}

func (c *Client) token() (string, error) {
	if c.config.TokenFile == "" {
		return "", nil
	}
	data, err := os.ReadFile(c.config.TokenFile)
	if err != nil {
		return "", fmt.Errorf("nomad token: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", fmt.Errorf("nomad token: %s is empty", c.config.TokenFile)
	}
	return token, nil
}

// nodeID returns this host's, which the Nomad agent is asked for once.
func (c *Client) nodeID(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.node != "" {
		return c.node, nil
	}
	options, err := c.query(ctx)
	if err != nil {
		return "", err
	}
	var self api.AgentSelf
	if _, err := c.api.Raw().Query("/v1/agent/self", &self, options); err != nil {
		return "", fmt.Errorf("ask nomad for this host's node ID: %w", err)
	}
	id := self.Stats["client"]["node_id"]
	if id == "" {
		return "", errors.New("the nomad agent is no client: configure node_id, or the address of this host's")
	}
	c.node = id
	return id, nil
}
