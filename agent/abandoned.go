// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"path/filepath"
	"time"

	"github.com/allocnet/allocnet/internal/netns"
)

// abandoned finds allocations that their orchestrator has ended, and whose namespaces it has
// left. Nomad's client does that if it is killed between the end of the tasks and
// that of the network.
type abandoned struct {
	// since is when an allocation was first seen to have ended with an unused namespace.
	since map[string]time.Time
	// unused returns those of the paths that exist and at which no process's namespace is.
	unused func(paths []string) ([]string, error)
}

// find returns those that have been seen so for the age: an orchestrator that runs removes
// the namespace meanwhile.
func (a *abandoned) find(ended []string, age time.Duration, now time.Time) (found []string, err error) {
	var paths []string
	for _, id := range ended {
		paths = append(paths, filepath.Join(netns.DefaultDir, id))
	}
	if paths, err = a.unused(paths); err != nil {
		return nil, err
	}
	since := map[string]time.Time{}
	for _, path := range paths {
		id := filepath.Base(path)
		first, seen := a.since[id]
		if !seen {
			first = now
		}
		since[id] = first
		if now.Sub(first) >= age {
			found = append(found, id)
		}
	}
	a.since = since
	return found, nil
}
