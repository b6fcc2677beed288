// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/selection"
)

// TestNothingIsInterrupted: a call on an allocation of which no call was interrupted rolls nothing back.
func TestNothingIsInterrupted(t *testing.T) {
	var log bytes.Buffer
	m := newMemory(t, func(c *Config) { c.Logger = hclog.New(&hclog.LoggerOptions{Output: &log}) })
	m.network(t, "web", "bridge")
	m.network(t, "storage", "macvlan")
	request := Request{ID: "a", Primary: &selection.Element{Name: "web"}}
	_, err := m.Setup(t.Context(), request)
	_, again := m.Setup(t.Context(), request)
	_, further := m.Extend(t.Context(), Request{ID: "a", Networks: []selection.Element{{Name: "storage"}}})
	if err := errors.Join(err, again, further); err != nil || strings.Contains(log.String(), "interrupted call") {
		t.Errorf("%v, logged is\n%s", err, &log)
	}
}
