// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package rest sends requests to Nomad's HTTP API with the standard library only, for programs
// that start in a millisecond. Answers are limited in time and size, since others write what is
// in them.
package rest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/allocnet/allocnet/internal/files"
)

// Config is the connection to a Nomad agent. The zero value is this host's agent, without a
// token.
type Config struct {
	// Address of the Nomad agent, as https://127.0.0.1:4646 or unix:///socket. Empty:
	// http://127.0.0.1:4646.
	Address string
	// TokenFile has the ACL token. It is read for each request. Empty: no token.
	TokenFile string
	// CAFile, CertFile, KeyFile and TLSName are the TLS settings of Nomad's own CLI. The
	// certificate is read for each connection. Empty: the system's CAs, no certificate, no key,
	// the address's name.
	CAFile, CertFile, KeyFile, TLSName string
	// Region is that of all requests. Empty: the agent's.
	Region string
}

// Client sends requests. It may be used concurrently.
type Client struct {
	config Config
	base   url.URL
	http   *http.Client
}

// New returns a client. It sends no request.
func New(c Config) (*Client, error) {
	c.Address = cmp.Or(c.Address, "http://127.0.0.1:4646")
	base, err := url.Parse(c.Address)
	if err != nil || !valid(base) {
		return nil, fmt.Errorf("nomad address %q: want one such as http://127.0.0.1:4646, https://127.0.0.1:4646 or unix:///socket", c.Address)
	}
	transport, err := transport(c, base)
	if err != nil {
		return nil, err
	}
	if base.Scheme == "unix" {
		base = &url.URL{Scheme: "http", Host: "127.0.0.1"}
	}
	// The answer itself is given: a token is sent to the configured address only.
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{config: c, base: *base, http: &http.Client{Transport: transport, CheckRedirect: noRedirect}}, nil
}

func valid(address *url.URL) bool {
	switch address.Scheme {
	case "http", "https":
		return address.Host != "" && strings.Trim(address.Path, "/") == ""
	case "unix":
		return address.Host == "" && address.Path != ""
	}
	return false
}

// Address is the agent's.
func (c *Client) Address() string { return c.config.Address }

// Request is a request.
type Request struct {
	// Method is that of HTTP, and Path begins with /v1/.
	Method, Path string
	Query        url.Values
	// Body is sent as it is. Empty: none.
	Body []byte
	// Wait is that of a blocking query. 0: the answer comes at once.
	Wait time.Duration
	// MostBytes is the limit of the answer's body.
	MostBytes int64
}

// Answer is an answer with the status 200 or 204.
type Answer struct {
	Body []byte
	// Index is Nomad's, for blocking queries. 0: the answer has none.
	Index uint64
	// NextToken is that of the next page. Empty: this was the last.
	NextToken string
	// LastContact is for how long the server that answered a stale query had not heard of the
	// leader.
	LastContact time.Duration
}

// timeout is that of a request, in addition to its Wait.
const timeout = 5 * time.Second

// Do sends a request. The error is an *Error, or a *TokenError before anything is sent.
func (c *Client) Do(ctx context.Context, r Request) (Answer, error) {
	token, err := c.token()
	if err != nil {
		return Answer{}, err
	}
	// Nomad adds up to a sixteenth to the time.
	ctx, cancel := context.WithTimeoutCause(ctx, timeout+r.Wait+r.Wait/16, fmt.Errorf("no answer within %s: %w", timeout+r.Wait, context.DeadlineExceeded))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, r.Method, c.url(r), bytes.NewReader(r.Body))
	if err != nil {
		return Answer{}, c.failed(r, err)
	}
	if token != "" {
		request.Header.Set("X-Nomad-Token", token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return Answer{}, c.failed(r, cause(ctx, err))
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(io.LimitReader(response.Body, r.MostBytes+1))
	if err != nil {
		return Answer{}, c.failed(r, cause(ctx, err))
	}
	return c.answer(r, response, body)
}

func (c *Client) answer(r Request, response *http.Response, body []byte) (Answer, error) {
	if isOfNoServer(response.Header) {
		return Answer{}, c.failed(r, errNoServer)
	}
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusNoContent {
		return Answer{}, &Error{Address: c.config.Address, Method: r.Method, Path: r.Path, Status: response.StatusCode, Body: body[:min(len(body), int(r.MostBytes))]}
	}
	if int64(len(body)) > r.MostBytes {
		return Answer{}, c.failed(r, fmt.Errorf("the answer has more than %d bytes", r.MostBytes))
	}
	index, _ := strconv.ParseUint(response.Header.Get("X-Nomad-Index"), 10, 64) // 0 if it has none
	contact, _ := strconv.ParseUint(response.Header.Get("X-Nomad-Lastcontact"), 10, 32)
	return Answer{
		Body: body, Index: index, NextToken: response.Header.Get("X-Nomad-Nexttoken"),
		LastContact: time.Duration(contact) * time.Millisecond,
	}, nil
}

var errNoServer = errors.New("the agent has not asked a server: it is being stopped")

// isOfNoServer is whether an agent answers as if the servers had nothing, because it is being
// stopped. What a server answers says since when that one has not heard of a leader.
func isOfNoServer(h http.Header) bool {
	return h.Get("X-Nomad-Knownleader") == "false" && h.Get("X-Nomad-Lastcontact") == "0"
}

// cause is why a request ended: that of the context, if it has.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (c *Client) url(r Request) string {
	query := url.Values{}
	for name, values := range r.Query {
		query[name] = values
	}
	if c.config.Region != "" {
		query.Set("region", c.config.Region)
	}
	if r.Wait > 0 {
		query.Set("wait", r.Wait.String())
	}
	u := c.base
	u.Path, u.RawQuery = r.Path, query.Encode()
	return u.String()
}

func (c *Client) token() (string, error) {
	if c.config.TokenFile == "" {
		return "", nil
	}
	data, err := files.Read(c.config.TokenFile)
	if err != nil {
		return "", &TokenError{err}
	}
	token := strings.TrimSpace(string(data))
	if token == "" || strings.ContainsFunc(token, notPrintable) {
		return "", &TokenError{fmt.Errorf("%s: want one line with a token", c.config.TokenFile)}
	}
	return token, nil
}
