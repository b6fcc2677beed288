// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package event keeps what the engine did on a host: a ring of bounded size in the state
// directory.
//
// The engine reports each operation once, to observers (hook.Observer): metrics and events are two
// of them. Nothing reads an event to decide.
//
// # Layout
//
//	<dir>/events/current
//	<dir>/events/previous
//
// Both have one line of JSON for each event, with the version of the format and an index that
// grows by one. Processes append to current, each event in one write, with the lock (flock) of the
// directory. When current is full, both files become the new previous, which is replaced in one
// step, and current is removed. After kill -9 between the two steps both have the same events,
// which readers and the next rotation see by the index.
//
// An incomplete last line is of a killed process: the next event begins a line of its own, and
// readers skip what is no event. Nothing is synced: a power cut loses the newest events, or those
// before the last rotation.
//
// Readers take no lock. A follower polls: inotify has few instances, and a rotation replaces the
// file that it would watch.
//
// # Bounds
//
// A line has a maximum length, and so have the files. If the events of both files are too many for
// the new previous, each job has an equal share of it, and allocations without a job one each: of
// the jobs with more, the oldest events are dropped. So a job that fails all the time cannot
// displace the events of others that have less.
//
// An append waits for the lock for a second at most, once in eleven seconds, and its failure
// changes nothing for the caller.
package event
