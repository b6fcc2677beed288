// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/api"

	"github.com/allocnet/allocnet/internal/files"
)

// Config is the connection to a Nomad agent. The zero value is this host's agent,
// without a token.
type Config struct {
	// Address of the Nomad agent, as https://127.0.0.1:4646 or unix:///socket.
	// Empty: http://127.0.0.1:4646.
	Address string
	// TokenFile has the ACL token. It is read for each request, so that it can
	// be rotated. Empty: no token.
	TokenFile string
	// CAFile, CertFile, KeyFile and TLSName are the TLS settings of Nomad's own
	// CLI. Empty: the system's CAs, no certificate, no key, the address's name.
	CAFile, CertFile, KeyFile, TLSName string
	// NodeID of this host. Empty: that of the agent at Address, which must be
	// this host's client.
	NodeID string
	// NetworksDir caches the job networks of allocations. Required for Networks.
	NetworksDir string
	// JobNetworks is whether Networks is used. False: Logger gets a line for each live
	// allocation whose job selects networks, because no one attaches them.
	JobNetworks bool
	// Logger gets a line for each failed request that is repeated. Default: none.
	Logger hclog.Logger
}

// Client is a client of Nomad's API for one node. It may be used concurrently.
type Client struct {
	config Config
	api    *api.Client
	log    hclog.Logger
	cache  networkCache
	// pause is watchPause; tests replace it.
	pause time.Duration

	mu   sync.Mutex // guards all below
	node string     // the node ID; empty until it is known
	// self is what the Nomad agent said of itself; nil until it has.
	self *agentSelf
	// live is the live set of Watch's last answer; nil: unknown.
	live map[string]bool
	// lastLive is the last live set that was not nil.
	lastLive map[string]bool
	// unread are the live allocations of which Logger was told.
	unread map[string]bool
	// ended are the allocations of this node that the last answer says have ended.
	ended []string
	// indexes are the numbers of those that live, and renumbered counts how often they have changed.
	indexes    map[string]int
	renumbered uint64
}

// New returns a client. It sends no request.
func New(c Config) (*Client, error) {
	c.Address = cmp.Or(c.Address, "http://127.0.0.1:4646")
	c.Logger = cmp.Or(c.Logger, hclog.NewNullLogger())
	client, err := api.NewClient(&api.Config{
		Address: c.Address,
		TLSConfig: &api.TLSConfig{
			CACert: c.CAFile, ClientCert: c.CertFile, ClientKey: c.KeyFile, TLSServerName: c.TLSName,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("nomad address %q: %w", c.Address, err)
	}
	return &Client{
		config: c, api: client, log: c.Logger, pause: watchPause, node: c.NodeID,
		cache: networkCache{dir: c.NetworksDir, log: c.Logger},
	}, nil
}

// query returns the options of a request. Namespace "*" is every namespace that
// the token may read.
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
	data, err := files.Read(c.config.TokenFile)
	if err != nil {
		return "", fmt.Errorf("nomad token: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", fmt.Errorf("nomad token: %s is empty", c.config.TokenFile)
	}
	return token, nil
}

// nodeID returns the node ID of this host. The Nomad agent is asked once.
func (c *Client) nodeID(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.node != "" {
		return c.node, nil
	}
	self, err := c.readSelf(ctx)
	if err != nil {
		return "", fmt.Errorf("read the node ID of this host from nomad: %w", err)
	}
	id := self.Stats["client"]["node_id"]
	if id == "" {
		c.self = nil
		return "", errors.New("the nomad agent is not a client: configure node_id, or the address of this host's client")
	}
	c.node = id
	return id, nil
}

// AllocDir returns what has the directories of the allocations of this host. Empty in development mode, where it is a temporary
// directory. The Nomad agent is asked once. One that does not answer within 3 s is an error, and so is one that is a server alone.
func (c *Client) AllocDir(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout) // who waits for the lock
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	self, err := c.readSelf(ctx)
	if err == nil && !self.Config.Client.Enabled {
		c.self, err = nil, fmt.Errorf("the nomad agent at %s %w: want the address of this host's client", c.api.Address(), errNoClient)
	}
	if err != nil {
		return "", fmt.Errorf("read alloc_dir of the client from nomad: %w", err)
	}
	return self.allocDir(), nil
}

// readSelf asks the Nomad agent until it has answered. The caller holds c.mu.
func (c *Client) readSelf(ctx context.Context) (*agentSelf, error) {
	if c.self != nil {
		return c.self, nil
	}
	options, err := c.query(ctx)
	if err != nil {
		return nil, err
	}
	self, err := querySelf(c.api, options)
	if err == nil {
		c.self = self
	}
	return self, err
}

// agentSelf is what a Nomad agent says of itself, in its own keys.
type agentSelf struct {
	Config struct {
		DataDir string
		Version struct{ Version string }
		Client  struct {
			Enabled                bool
			AllocDir, CNIConfigDir string
		}
	}
	Stats map[string]map[string]string
}

func querySelf(client *api.Client, options *api.QueryOptions) (*agentSelf, error) {
	var self agentSelf
	_, err := client.Raw().Query("/v1/agent/self", &self, options)
	return &self, err
}

func (s *agentSelf) allocDir() string {
	if s.Config.Client.AllocDir == "" && s.Config.DataDir != "" {
		return filepath.Join(s.Config.DataDir, "alloc") // Nomad's default
	}
	return s.Config.Client.AllocDir
}

// ClientConfig has settings of the Nomad client on this host.
type ClientConfig struct {
	// AllocDir has the directories of the allocations. Empty in development mode, where
	// it is a temporary directory.
	AllocDir string
	// CNIConfigDir has the networks that Nomad offers.
	CNIConfigDir string
	// Version is that of the agent.
	Version Version
}

// clientTimeout is a variable for tests.
var clientTimeout = 3 * time.Second

// ReadClientConfig asks the Nomad agent. The connection is that of Nomad's CLI:
// NOMAD_ADDR, NOMAD_TOKEN and its other environment variables. An agent without a client
// is an error, and so is one that does not answer within 3 s, which is a timeout.
func ReadClientConfig(ctx context.Context) (ClientConfig, error) {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	client, err := api.NewClient(api.DefaultConfig())
	if err != nil {
		return ClientConfig{}, err
	}
	self, err := querySelf(client, (&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return ClientConfig{}, fmt.Errorf("read the configuration of the nomad agent at %s: %w", client.Address(), err)
	}
	c := ClientConfig{AllocDir: self.allocDir(), CNIConfigDir: self.Config.Client.CNIConfigDir}
	if !self.Config.Client.Enabled {
		return ClientConfig{}, fmt.Errorf("the nomad agent at %s %w", client.Address(), errNoClient)
	}
	if c.Version, err = ParseVersion(self.Config.Version.Version); err != nil {
		return ClientConfig{}, fmt.Errorf("the nomad agent at %s: %w", client.Address(), err)
	}
	return c, nil
}

var errNoClient = errors.New("is not a client")

// IsAbsent tells whether an error of ReadClientConfig is that no Nomad client runs here: nothing accepts a connection, or it is a server.
func IsAbsent(err error) bool {
	failed, ok := errors.AsType[*net.OpError](err)
	return ok && failed.Op == "dial" || errors.Is(err, errNoClient)
}

// IsDenied tells whether an error is that of an agent whose ACLs do not let the token ask, or that wants one.
func IsDenied(err error) bool {
	answer, ok := errors.AsType[api.UnexpectedResponseError](err)
	return ok && (answer.StatusCode() == http.StatusForbidden || answer.StatusCode() == http.StatusUnauthorized)
}
