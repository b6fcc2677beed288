// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/exhaustive"
)

// TestLongRandom: random configurations leave the same after random sequences of steps. The seed and
// the number of a round determine both: with the seed of a run, and a time of a second,
// "go test ./e2e/differential -run 'TestLongRandom/round_7$'" repeats a round.
func TestLongRandom(t *testing.T) {
	var round atomic.Uint64
	var group sync.WaitGroup
	end := time.Now().Add(randomTime)
	for range parallel {
		group.Go(func() {
			for n := round.Add(1); randomTime == 0 && n <= rounds || time.Now().Before(end); n = round.Add(1) {
				t.Run(fmt.Sprintf("round %d", n), func(t *testing.T) { requireSame(t, randomConfiguration(n)) })
			}
		})
	}
	group.Wait()
	t.Logf("up to round %d with ALLOCNET_DIFFERENTIAL_SEED=%d", round.Load(), seed)
}

// rounds is how many there are unless a time is given.
const rounds = 16

func randomConfiguration(round uint64) configuration {
	chance := rand.New(rand.NewPCG(seed, round))
	f := families[chance.IntN(len(families))]
	c := f.with(f.choose(chance))
	c.Steps = randomSteps(chance, f)
	return c
}

// randomSteps returns verbs, more than half of them, and commands of the family's variants.
func randomSteps(chance *rand.Rand, f family) []string {
	steps := []string{add}
	for range 2 + chance.IntN(6) {
		switch n := chance.IntN(20); {
		case n < 5:
			steps = append(steps, add)
		case n < 10:
			steps = append(steps, check)
		case n < 15:
			steps = append(steps, del)
		default:
			commands := f.commands()
			steps = append(steps, commands[chance.IntN(len(commands))])
		}
	}
	return append(steps, del)
}

// commands returns the steps of the family's scripts that are no verbs.
func (f family) commands() []string {
	var commands []string
	for _, dimension := range f.all() {
		for _, v := range dimension {
			d := f.basic()
			v.apply(d)
			for _, step := range d.steps {
				if !isVerb(step) {
					commands = append(commands, step)
				}
			}
		}
	}
	return commands
}

// TestCommandsAfterOthers: a command does not fail where it, or another one, was run before.
func TestCommandsAfterOthers(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			c := f.with(nil)
			c.Steps = nil
			for _, command := range f.commands() {
				c.Steps = append(c.Steps, command, command)
			}
			requireSame(t, c)
		})
	}
}

// TestPreparations: those of any two variants that a configuration can have together succeed.
func TestPreparations(t *testing.T) {
	known := map[string]bool{}
	for _, f := range families {
		for _, prepare := range f.preparations() {
			c := configuration{Prepare: prepare, Legacy: f.basic().legacy}
			if known[c.String()] {
				continue
			}
			known[c.String()] = true
			exhaustive.Run(t, f.name+" "+c.String(), func(t *testing.T) {
				t.Parallel()
				requireSame(t, c)
			})
		}
	}
}

// preparations returns those of each two variants of different dimensions.
func (f family) preparations() [][]string {
	var all [][]string
	for i, dimension := range f.all() {
		for _, first := range dimension {
			single := f.with([]variant{first}).Prepare
			for _, later := range f.all()[i+1:] {
				for _, second := range later {
					if both := f.with([]variant{first, second}).Prepare; len(both) > max(len(single), 1) {
						all = append(all, both)
					}
				}
			}
		}
	}
	return all
}

// TestRandomIsRepeatable: a round is determined by the seed and its number.
func TestRandomIsRepeatable(t *testing.T) {
	different := map[string]bool{}
	for round := range uint64(20) {
		first, second := randomConfiguration(round), randomConfiguration(round)
		if first.String() != second.String() {
			t.Errorf("round %d: %s, then %s", round, first, second)
		}
		different[strings.Join(first.Steps, ";")] = true
	}
	if len(different) < 10 {
		t.Errorf("20 rounds have %d sequences of steps", len(different))
	}
}
