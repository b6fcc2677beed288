// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/event"
	"github.com/allocnet/allocnet/hook"
)

// engine has the methods of hook.Engine that the driver uses.
type engine interface {
	Extend(ctx context.Context, r hook.Request) (*hook.Allocation, error)
	Release(ctx context.Context, id, task string) error
	Status(ctx context.Context, id string) (*hook.Allocation, error)
	RetryDue() bool
	RetryPending(ctx context.Context) error
}

// settings are those of the Nomad agent, with the engine that has them.
type settings struct {
	base hook.Config
	log  hclog.Logger

	mu     sync.Mutex // guards all below
	config hook.Config
	engine engine
	broken error // the reason why engine is nil
}

func newSettings(c hook.Config, log hclog.Logger) *settings {
	return &settings{base: c, log: log, broken: errors.New("the Nomad agent has not configured the plugin yet")}
}

// configure opens the engine with the plugin block of the Nomad agent.
func (s *settings) configure(data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var p pluginConfig
	if s.broken = decode(data, &p); s.broken != nil {
		s.broken = fmt.Errorf("plugin block: %w", s.broken)
		return
	}
	s.config = p.apply(s.base)
	s.config.Logger = s.log
	s.config.Observers = []hook.Observer{event.NewRecorder(s.config.StateDir, "driver", s.log)}
	opened, err := hook.NewEngine(s.config)
	s.engine, s.broken = opened, err
}

// ready returns the engine, or the reason why there is none.
func (s *settings) ready() (engine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine, s.broken
}

// current returns the configuration.
func (s *settings) current() hook.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.config
}

// retryLater retries pending teardowns in the background: Nomad does not wait for it.
func retryLater(e engine, log hclog.Logger) {
	go func() {
		if !e.RetryDue() {
			return
		}
		if err := e.RetryPending(context.Background()); err != nil {
			log.Warn("retry of pending teardowns failed", "error", err)
		}
	}()
}
