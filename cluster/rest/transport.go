// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/allocnet/allocnet/internal/files"
)

// idle connections are closed before the agent closes them: a request on a connection that is
// just being closed has an unknown outcome.
const idle = 20 * time.Second

// transport connects to the address and nowhere else: it uses no proxy.
func transport(c Config, address *url.URL) (*http.Transport, error) {
	dialer := net.Dialer{Timeout: timeout}
	t := &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: timeout, IdleConnTimeout: idle, MaxIdleConnsPerHost: 4,
		MaxResponseHeaderBytes: 64 << 10,
	}
	switch address.Scheme {
	case "unix":
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", address.Path)
		}
	case "https":
		config, err := tlsConfig(c)
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig = config
	}
	return t, nil
}

func tlsConfig(c Config) (*tls.Config, error) {
	config := &tls.Config{ServerName: c.TLSName, MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		data, err := files.Read(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("nomad ca_file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("nomad ca_file: %s has no certificate: want PEM", c.CAFile)
		}
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return nil, fmt.Errorf("nomad cert_file %q, key_file %q: want both or none", c.CertFile, c.KeyFile)
	}
	if c.CertFile != "" {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			certificate, err := keyPair(c)
			if err != nil {
				return nil, fmt.Errorf("nomad cert_file, key_file: %w", err)
			}
			return &certificate, nil
		}
	}
	return config, nil
}

func keyPair(c Config) (tls.Certificate, error) {
	certificate, err := files.Read(c.CertFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := files.Read(c.KeyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certificate, key)
}
