// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pools

// reporter tells which kinds of problems of a pool have begun and ended. It outlasts the keeper, which is replaced when the
// configuration changes, and is used by one at a time.
type reporter struct {
	tell func(p Problem, ended bool)
	// before are the kinds of the last look, and told those that have begun.
	before, told map[Kind]bool
}

func newReporter(tell func(p Problem, ended bool)) *reporter {
	return &reporter{tell, map[Kind]bool{}, map[Kind]bool{}}
}

// look compares the problems that there are with those of before. One that comes or goes for a moment, as when a server is slow
// once, is not told.
func (r *reporter) look(problems []Problem) {
	now := map[Kind]bool{}
	for _, p := range problems {
		if now[p.Kind] = true; r.before[p.Kind] && !r.told[p.Kind] {
			r.told[p.Kind] = true
			r.tell(p, false)
		}
	}
	for _, kind := range Kinds {
		if r.told[kind] && !now[kind] && !r.before[kind] {
			delete(r.told, kind)
			r.tell(Problem{Kind: kind}, true)
		}
	}
	r.before = now
}

// end tells that what has begun has ended, with the pool.
func (r *reporter) end() {
	r.look(nil)
	r.look(nil)
}
