// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/selection"
)

// TestReported: what takes longer than two seconds says what it waits for, once.
func TestReported(t *testing.T) {
	r := hook.Request{ID: "web-1", Primary: &selection.Element{Name: "web"}, Networks: []selection.Element{{Name: "storage"}}}
	failed := errors.New("failed")
	for takes, want := range map[time.Duration]string{
		1900 * time.Millisecond: "",
		10 * time.Second:        "allocnet: web-1: waiting for the plugins of web, storage\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			var stderr bytes.Buffer
			_, err := (&settings{}).reported(&stderr, r, func() (*hook.Allocation, error) {
				time.Sleep(takes)
				return nil, failed
			})
			if got := stderr.String(); got != want || !errors.Is(err, failed) {
				t.Errorf("%s: printed %q, error %v, want %q and the error", takes, got, err, want)
			}
		})
	}
}
