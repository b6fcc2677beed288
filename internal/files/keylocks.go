// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package files

import (
	"context"
	"sync"
)

// KeyLocks is a set of locks by key. The zero value is ready.
type KeyLocks struct {
	mu   sync.Mutex // guards held, never held while waiting
	held map[string]*lock
}

type lock struct {
	users int           // the holder, and the waiting callers
	token chan struct{} // holds one token while the lock is free
}

// Lock waits for the key's lock and returns the function that releases it, which may
// be called more than once. When ctx ends first the error is its cause. Keys do
// not wait for each other.
func (l *KeyLocks) Lock(ctx context.Context, key string) (unlock func(), err error) {
	e := l.enter(key)
	unlock = sync.OnceFunc(func() {
		e.token <- struct{}{}
		l.leave(key, e)
	})
	select {
	case <-e.token: // a free lock is taken even if ctx has ended
		return unlock, nil
	default:
	}
	select {
	case <-e.token:
		return unlock, nil
	case <-ctx.Done():
		l.leave(key, e)
		return nil, context.Cause(ctx)
	}
}

func (l *KeyLocks) enter(key string) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.held[key]
	if !ok {
		e = &lock{token: make(chan struct{}, 1)}
		e.token <- struct{}{}
		if l.held == nil {
			l.held = map[string]*lock{}
		}
		l.held[key] = e
	}
	e.users++
	return e
}

func (l *KeyLocks) leave(key string, e *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.users--; e.users == 0 {
		delete(l.held, key)
	}
}
