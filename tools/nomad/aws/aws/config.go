// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package aws has the configuration with which Nomad asks whether it is in that cloud.
package aws

import "net/http"

// Config configures nothing.
type Config struct{}

// NewConfig returns a configuration.
func NewConfig() *Config { return &Config{} }

// WithHTTPClient returns c.
func (c *Config) WithHTTPClient(*http.Client) *Config { return c }

// WithMaxRetries returns c.
func (c *Config) WithMaxRetries(int) *Config { return c }

// WithEndpoint returns c.
func (c *Config) WithEndpoint(string) *Config { return c }
