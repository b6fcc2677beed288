// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package storetest_test

import (
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
)

func TestFake(t *testing.T) {
	storetest.Conform(t, func(t *testing.T) ipam.Store { return fakes(t) })
}

// fakes returns one Fake a test.
var fakes = func() func(t *testing.T) ipam.Store {
	byTest := map[string]*storetest.Fake{}
	return func(t *testing.T) ipam.Store {
		if byTest[t.Name()] == nil {
			byTest[t.Name()] = &storetest.Fake{}
		}
		return byTest[t.Name()]
	}
}()
