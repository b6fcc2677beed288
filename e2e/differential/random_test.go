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
)

// TestRandom: random configurations leave the same after random sequences of steps. The seed and
// the number of a round determine both: with the seed of a run,
// "go test ./e2e/differential -run 'TestRandom/round_7$'" repeats a round.
func TestRandom(t *testing.T) {
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
const rounds = 48

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
			steps = append(steps, f.randomCommand(chance))
		}
	}
	return append(steps, del)
}

// randomCommand returns a step of the family's scripts that is no verb.
func (f family) randomCommand(chance *rand.Rand) string {
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
	return commands[chance.IntN(len(commands))]
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
