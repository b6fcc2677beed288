// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"sync"
	"testing"
)

// TestChainIsDecodedOnce: an attach asks for the chain of a network many times, an agent in several goroutines.
func TestChainIsDecodedOnce(t *testing.T) {
	n, err := ParseNetwork("n", []byte(`{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "bridge"}, {"type": "portmap"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var chains [8][]Plugin
	var all sync.WaitGroup
	for i := range chains {
		all.Go(func() { chains[i] = n.Chain() })
	}
	all.Wait()
	for _, chain := range chains {
		if len(chain) != 2 || &chain[0] != &chains[0][0] || chain[0].Bridge != "cni0" {
			t.Errorf("decoded %+v, first %+v", chain, chains[0])
		}
	}
}
