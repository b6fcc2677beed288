// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"fmt"
	"testing"

	"github.com/allocnet/allocnet/isolation"
)

// BenchmarkPrepare prepares 10,000 rules for one attachment, as a process does that attaches one.
func BenchmarkPrepare(b *testing.B) {
	rules := isolation.Rules{}
	for i := range 10000 {
		rules.Allow = append(rules.Allow, isolation.Allow{
			Name: fmt.Sprint("rule ", i), From: isolation.Selector{Job: fmt.Sprint("job", i), Namespace: "prod"},
			To: isolation.Selector{Job: fmt.Sprint("job", i+1)}, Ports: []isolation.Ports{{Protocol: "tcp", First: 80, Last: 80}},
		})
	}
	m := isolation.Member{Namespace: "prod", Job: "job7", Group: "g", Network: "n"}
	for b.Loop() {
		r := newRuleset(rules, "")
		if k := r.kindOf(&m); k.allow.chain == "" || len(k.sets) != 1 {
			b.Fatal(k)
		}
	}
}
