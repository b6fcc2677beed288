// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"
)

// idle is how long a session lasts without a request.
const idle = 30 * time.Minute

// cookieName is the name of the cookie that has a session.
const cookieName = "allocnet-ui"

// digest is the SHA-256 of a secret: the time of a look-up tells nothing about the secret.
type digest [sha256.Size]byte

func digestOf(secret string) digest { return sha256.Sum256([]byte(secret)) }

// sessions are the browsers that have spent a token. The zero value has none.
type sessions struct {
	mu sync.Mutex
	// token is that of the last URL. Nil: it was spent.
	token *digest
	// used is when each session was used last.
	used map[digest]time.Time
}

// newToken returns a token, which is valid until it is spent or another one is made.
func (s *sessions) newToken() string {
	token := rand.Text()
	d := digestOf(token)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = &d
	return token
}

// spend returns a new session for a token; ok is false for one that is not valid.
func (s *sessions) spend(token string, now time.Time) (session string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token == nil || *s.token != digestOf(token) {
		return "", false
	}
	s.token = nil
	session = rand.Text()
	if s.used == nil {
		s.used = map[digest]time.Time{}
	}
	s.used[digestOf(session)] = now
	return session, true
}

// use tells whether a request has a session, which lasts longer by that.
func (s *sessions) use(r *http.Request, now time.Time) bool {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return false
	}
	key := digestOf(cookie.Value)
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := s.used[key]
	if !ok || now.Sub(last) >= idle {
		delete(s.used, key)
		return false
	}
	s.used[key] = now
	return true
}
