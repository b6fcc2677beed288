// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/exporter-toolkit/web"
	"golang.org/x/net/netutil"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/internal/errdefs"
)

// Limits of the metrics listener: unlike the socket it may be open to a network.
const (
	metricsConnections = 16
	metricsTimeout     = 30 * time.Second
)

// metricsServer serves the metrics, and nothing else, on a TCP address: Prometheus cannot
// scrape a unix socket.
type metricsServer struct {
	listener net.Listener
	server   *http.Server
	config   config.Metrics
	log      hclog.Logger
}

// listenMetrics opens the listener of the block metrics; nil without the block.
func (d *Daemon) listenMetrics() (*metricsServer, error) {
	c := d.config.Metrics
	if c == nil {
		return nil, nil
	}
	if err := checkWebConfig(c.WebConfig); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("metrics: listen %q: %w", c.Listen, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+api.PathMetrics, d.metrics.Handler())
	log := d.log.Named("metrics")
	server := &http.Server{
		Handler: mux, ReadTimeout: metricsTimeout, WriteTimeout: metricsTimeout, MaxHeaderBytes: 16 << 10,
		ErrorLog: log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
	}
	return &metricsServer{netutil.LimitListener(l, metricsConnections), server, *c, log}, nil
}

// checkWebConfig reports a mistake in the file of TLS and users. The exporter toolkit
// reads the file again for each connection.
func checkWebConfig(path string) error {
	if path == "" {
		return nil
	}
	if err := web.Validate(path); err != nil {
		return errdefs.As(errdefs.Refused, fmt.Errorf("metrics: web_config %s: %w", path, err))
	}
	return nil
}

func (s *metricsServer) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { _ = s.server.Close() }) // a scrape is repeated
	defer stop()
	warnings := slog.New(slog.NewTextHandler(s.log.StandardWriter(&hclog.StandardLoggerOptions{ForceLevel: hclog.Warn}), &slog.HandlerOptions{Level: slog.LevelWarn}))
	s.log.Info("serving metrics", "address", s.listener.Addr().String())
	err := web.Serve(s.listener, s.server, &web.FlagConfig{WebConfigFile: &s.config.WebConfig}, warnings)
	if !errors.Is(err, http.ErrServerClosed) {
		s.log.Error("metrics are not served any more on the TCP listener", "error", err)
	}
}
