// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package client calls the agent on its unix socket.
//
//	c := client.New("")
//	allocation, err := c.Setup(ctx, "web-1", api.Setup{Networks: api.Selection{{Name: "storage"}}})
//
// An answer that is not a success is an *api.Error. "Try again later" (CNI code
// 11) is retried until the context ends. If no agent listens on the socket, the
// error is ErrUnavailable and nothing was done: the caller may do the work itself.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/internal/errdefs"
)

// ErrUnavailable is returned if no agent answers on the socket.
var ErrUnavailable = errdefs.New(errdefs.Unavailable, "the agent does not answer")

// Client calls one agent. It may be used concurrently.
type Client struct {
	socket string
	http   http.Client
	// patience is how long Cluster waits: the agent answers from memory.
	patience time.Duration
}

// New returns a client of the agent at a socket; an empty path is
// api.DefaultSocket. It does not connect.
func New(socket string) *Client {
	socket = cmp.Or(socket, api.DefaultSocket)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", socket)
		if err != nil && ctx.Err() == nil {
			err = errdefs.As(errdefs.Unavailable, fmt.Errorf("%w: %w", ErrUnavailable, err))
		}
		return c, err
	}
	return &Client{socket: socket, http: http.Client{Transport: &http.Transport{DialContext: dial}}, patience: 3 * time.Second}
}

// Setup sets an allocation up; repeated with the same body it returns the existing
// attachments. If the context ends first, the agent undoes the set-up.
func (c *Client) Setup(ctx context.Context, id string, body api.Setup) (*api.Allocation, error) {
	return call[api.Allocation](ctx, c, http.MethodPut, allocationPath(id), body)
}

// Teardown takes an allocation down. One that is not set up is no error.
func (c *Client) Teardown(ctx context.Context, id string) error {
	_, err := call[api.Allocation](ctx, c, http.MethodDelete, allocationPath(id), nil)
	return err
}

// Allocation returns an allocation; one that is not set up has the code
// api.CodeUnknownContainer.
func (c *Client) Allocation(ctx context.Context, id string) (*api.Allocation, error) {
	return call[api.Allocation](ctx, c, http.MethodGet, allocationPath(id), nil)
}

// Details returns what is recorded of the attachments of an allocation beside what Allocation
// returns, and their rules and leases on the host. The agent lists the host's rules for that.
func (c *Client) Details(ctx context.Context, id string) (*api.Details, error) {
	return call[api.Details](ctx, c, http.MethodGet, allocationPath(id)+"/details", nil)
}

// Allocations returns all recorded allocations, in the order of their IDs. One whose
// record cannot be read has its ID and an Error only.
func (c *Client) Allocations(ctx context.Context) ([]*api.Allocation, error) {
	all, err := call[[]*api.Allocation](ctx, c, http.MethodGet, api.PathAllocations, nil)
	if err != nil {
		return nil, err
	}
	return *all, nil
}

// Attach attaches an allocation that is set up to further networks.
func (c *Client) Attach(ctx context.Context, id string, networks api.Selection) (*api.Allocation, error) {
	return call[api.Allocation](ctx, c, http.MethodPost, allocationPath(id)+"/attachments", api.Attach{Networks: networks})
}

// Detach removes one attachment of an allocation. An interface that is not
// attached is no error.
func (c *Client) Detach(ctx context.Context, id, iface string) error {
	_, err := call[api.Allocation](ctx, c, http.MethodDelete, allocationPath(id)+"/attachments/"+url.PathEscape(iface), nil)
	return err
}

// Networks returns the networks of the CNI configuration directories.
func (c *Client) Networks(ctx context.Context) (*api.Networks, error) {
	return call[api.Networks](ctx, c, http.MethodGet, api.PathNetworks, nil)
}

// Pools returns what the host has of the pools of allocnet-ipam.
func (c *Client) Pools(ctx context.Context) (*api.Pools, error) {
	return call[api.Pools](ctx, c, http.MethodGet, api.PathPools, nil)
}

// Repair returns the attachments that lack something, as the agent has found.
func (c *Client) Repair(ctx context.Context) (*api.Repair, error) {
	return call[api.Repair](ctx, c, http.MethodGet, api.PathRepair, nil)
}

// Leaks returns what the last garbage collection left on the host.
func (c *Client) Leaks(ctx context.Context) (*api.Leaks, error) {
	return call[api.Leaks](ctx, c, http.MethodGet, api.PathLeaks, nil)
}

// Denied returns the flows that isolation has denied last.
func (c *Client) Denied(ctx context.Context) (*api.DeniedFlows, error) {
	return call[api.DeniedFlows](ctx, c, http.MethodGet, api.PathDenied, nil)
}

// Map returns a picture of the host. It takes longer the more allocations there are: their
// namespaces are looked into.
func (c *Client) Map(ctx context.Context) (*api.Map, error) {
	return call[api.Map](ctx, c, http.MethodGet, api.PathMap, nil)
}

// Cluster returns the pools whose networks span hosts. ErrUnavailable: the agent does not answer
// within 3 s, as one that is stopped.
func (c *Client) Cluster(ctx context.Context) (*api.Cluster, error) {
	limited, stop := context.WithTimeout(ctx, c.patience)
	defer stop()
	all, err := call[api.Cluster](limited, c, http.MethodGet, api.PathCluster, nil)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, errdefs.As(errdefs.Unavailable, fmt.Errorf("%w within %s: %w", ErrUnavailable, c.patience, err))
	}
	return all, err
}

// Events yields the events that the query selects, the oldest first; with Follow then new
// ones, until the context or the agent ends. To continue, set After to the last index.
func (c *Client) Events(ctx context.Context, q api.EventQuery) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		err := c.stream(ctx, api.PathEvents+"?"+q.Values().Encode(), func(e api.Event) bool { return yield(e, nil) })
		if err != nil && ctx.Err() == nil {
			yield(api.Event{}, err)
		}
	}
}

// stream makes a request whose answer is a list of lines, until next returns false.
func (c *Client) stream(ctx context.Context, path string, next func(api.Event) bool) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent"+path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := c.do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // read only
	if response.StatusCode != http.StatusOK {
		data, err := io.ReadAll(response.Body)
		if err == nil {
			_, err = decode[api.Event](response.StatusCode, data)
		}
		return err
	}
	decoder := json.NewDecoder(response.Body)
	for {
		var e api.Event
		switch err := decoder.Decode(&e); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("agent at %s: %w", c.socket, err)
		case !next(e):
			return nil
		}
	}
}

// do makes a request. Its error has the path of the socket, and not the URL, whose host is none.
func (c *Client) do(request *http.Request) (*http.Response, error) {
	response, err := c.http.Do(request)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	if err != nil {
		return nil, fmt.Errorf("agent at %s: %w", c.socket, err)
	}
	return response, nil
}

// GC tears down dead allocations and removes leaks.
func (c *Client) GC(ctx context.Context) (*api.Collected, error) {
	return call[api.Collected](ctx, c, http.MethodPost, api.PathGC, nil)
}

// Healthy is nil when the agent answers. No record is read for that.
func (c *Client) Healthy(ctx context.Context) error {
	_, err := once[api.Health](ctx, c, http.MethodGet, api.PathHealth, nil)
	return err
}

// Ready is nil when the agent can serve.
func (c *Client) Ready(ctx context.Context) error {
	_, err := once[api.Health](ctx, c, http.MethodGet, api.PathReady, nil)
	return err
}

func allocationPath(id string) string { return api.PathAllocations + "/" + url.PathEscape(id) }

// call makes a request, and retries it while the agent answers "try again later".
func call[T any](ctx context.Context, c *Client, method, path string, body any) (*T, error) {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	for {
		value, err := once[T](ctx, c, method, path, data)
		var refused *api.Error
		if !errors.As(err, &refused) || refused.Code != api.CodeTryAgainLater || refused.Status != http.StatusServiceUnavailable {
			return value, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w, after: %w", context.Cause(ctx), err)
		case <-time.After(250*time.Millisecond + rand.N(250*time.Millisecond)):
		}
	}
}

func once[T any](ctx context.Context, c *Client, method, path string, body []byte) (*T, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("agent at %s: %w", c.socket, err)
	}
	return decode[T](response.StatusCode, data)
}

func decode[T any](status int, data []byte) (*T, error) {
	if status == http.StatusNoContent {
		return nil, nil
	}
	if status != http.StatusOK {
		failure := &api.Error{Status: status}
		if err := json.Unmarshal(data, failure); err != nil {
			return nil, fmt.Errorf("the agent answers with status %d and no CNI error: %w", status, err)
		}
		return nil, failure
	}
	value := new(T)
	return value, json.Unmarshal(data, value)
}
