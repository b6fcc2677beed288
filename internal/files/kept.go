// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package files

import "sync"

// Kept is what was read of files last, which does not change. The zero value is nothing.
type Kept[T any] struct {
	mu       sync.Mutex
	identity string
	value    T
}

// Read returns what read returns, or has returned when the files had the same identity, as Identity. It is not kept if they change meanwhile, or
// have none.
func (k *Kept[T]) Read(identity func() string, read func() (T, error)) (T, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := identity()
	if before != "" && before == k.identity {
		return k.value, nil
	}
	value, err := read()
	k.identity = ""
	if err == nil && identity() == before {
		k.identity, k.value = before, value
	}
	return value, err
}
