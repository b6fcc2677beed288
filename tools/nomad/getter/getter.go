// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package getter gets files of this machine, as the jobs of the tests are, and nothing from elsewhere.
package getter

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// ClientMode is what a source may be.
type ClientMode uint

// The modes that Nomad names.
const (
	ClientModeAny ClientMode = iota
	ClientModeFile
	ClientModeDir
)

// Client copies a file.
type Client struct {
	Ctx                       context.Context
	Src, Dst, Pwd             string
	Mode                      ClientMode
	Umask                     os.FileMode
	Insecure, DisableSymlinks bool
	Decompressors             map[string]Decompressor
	Getters                   map[string]Getter
}

// Get copies the file of the path Src to Dst.
func (c *Client) Get() error {
	if len(c.Getters) > 0 {
		return fmt.Errorf("%q: this Nomad fetches no artifacts: want a job without", c.Src)
	}
	path := c.Src
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.Pwd, path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(c.Dst, data, 0o600)
}

// Getter is how Nomad would fetch what a job names.
type Getter any

// Decompressor is what Nomad would unpack it with.
type Decompressor any

// LimitedDecompressors returns none.
func LimitedDecompressors(int, int64) map[string]Decompressor { return nil }

// The getters that Nomad configures.
type (
	// HttpGetter would fetch from a server.
	HttpGetter struct {
		Netrc, XTerraformGetDisabled, DoNotCheckHeadFirst bool
		Client                                            *http.Client
		Header                                            http.Header
		ReadTimeout                                       time.Duration
		MaxBytes                                          int64
	}
	// GitGetter would clone a repository.
	GitGetter struct{ Timeout time.Duration }
	// HgGetter would clone a repository.
	HgGetter struct{ Timeout time.Duration }
	// GCSGetter would fetch from a bucket.
	GCSGetter struct{ Timeout time.Duration }
	// S3Getter would fetch from a bucket.
	S3Getter struct{ Timeout time.Duration }
)
