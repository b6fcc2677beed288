// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
)

// crowd is a state with attachments of many jobs, of which rules allow each to reach the next one.
func crowd(rules, members int) filter.State {
	s := filter.State{}
	for i := range rules {
		s.Rules.Allow = append(s.Rules.Allow, isolation.Allow{
			Name: fmt.Sprintf("rule %d", i), From: isolation.Selector{Job: fmt.Sprintf("job%d", i), Namespace: "prod"},
			To: isolation.Selector{Job: fmt.Sprintf("job%d", i+1)}, Ports: []isolation.Ports{{Protocol: "tcp", First: 80, Last: 80}},
		})
	}
	for i := range members {
		s.Members = append(s.Members, member(i+1, fmt.Sprintf("job%d", i/2), "s", isolation.Strict, "br0"))
	}
	return s
}

// within runs a benchmark in an empty namespace with a bridge.
func within(b *testing.B, do func() error) {
	b.Helper()
	n, err := netns.New()
	if err != nil {
		b.Fatal(err)
	}
	defer n.Close()
	if err := n.Do(func() error { addBridges(b, "br0"); return do() }); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkAdd adds and removes an attachment beside others: of a job that is there, and of one that is not.
func BenchmarkAdd(b *testing.B) {
	for _, size := range [][2]int{{0, 1}, {0, 1000}, {10000, 1}, {10000, 1000}} {
		s := crowd(size[0], size[1])
		for name, job := range map[string]string{"known": "job0", "new": "job9000"} {
			b.Run(fmt.Sprintf("%d_rules_%d_members_%s", size[0], size[1], name), func(b *testing.B) {
				within(b, func() error {
					err := kernel.Apply(b.Context(), source(s))
					more := member(70000, job, "s", isolation.Strict, "br0")
					for b.Loop() {
						err = errors.Join(err, kernel.Guard(b.Context(), more.ID, more.End, more.Bridge), admitBy(b, filter.RulesOf(s.Rules), more, source(s)))
						b.StopTimer()
						err = errors.Join(err, kernel.Remove(b.Context(), filter.RulesOf(s.Rules), more))
						if name == "new" {
							err = errors.Join(err, kernel.Apply(b.Context(), source(s)))
						}
						b.StartTimer()
					}
					return err
				})
			})
		}
	}
}

// BenchmarkRemove removes an attachment beside others.
func BenchmarkRemove(b *testing.B) {
	for _, size := range [][2]int{{0, 1}, {10000, 1000}} {
		s := crowd(size[0], size[1])
		b.Run(fmt.Sprintf("%d_rules_%d_members", size[0], size[1]), func(b *testing.B) {
			within(b, func() error {
				err := kernel.Apply(b.Context(), source(s))
				more := member(70000, "job0", "s", isolation.Strict, "br0")
				for b.Loop() {
					b.StopTimer()
					err = errors.Join(err, admitBy(b, filter.RulesOf(s.Rules), more, source(s)))
					b.StartTimer()
					err = errors.Join(err, kernel.Remove(b.Context(), filter.RulesOf(s.Rules), more))
				}
				return err
			})
		})
	}
}

// BenchmarkApply applies rules that have changed to a host with attachments, and looks what is missing.
func BenchmarkApply(b *testing.B) {
	for _, size := range [][2]int{{100, 100}, {10000, 1000}} {
		states := []filter.State{crowd(size[0], size[1]), crowd(size[0], size[1])}
		for i := range states[1].Rules.Allow {
			states[1].Rules.Allow[i].Ports[0] = isolation.Ports{Protocol: "udp", First: 80, Last: 90}
		}
		b.Run(fmt.Sprintf("%d_rules_%d_members", size[0], size[1]), func(b *testing.B) {
			within(b, func() error {
				err := kernel.Apply(b.Context(), source(states[1]))
				for i := 0; b.Loop(); i++ {
					err = errors.Join(err, kernel.Apply(b.Context(), source(states[i%2])))
				}
				return err
			})
		})
		b.Run(fmt.Sprintf("lacks_%d_rules_%d_members", size[0], size[1]), func(b *testing.B) {
			within(b, func() error {
				err := kernel.Apply(b.Context(), source(states[0]))
				for b.Loop() {
					lacks, failed := kernel.Lacks(b.Context(), states[0])
					if err = errors.Join(err, failed); len(lacks) > 0 {
						return errors.New("something is missing")
					}
				}
				return err
			})
		})
	}
}
