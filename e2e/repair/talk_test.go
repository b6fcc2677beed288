// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"strings"
	"sync"
	"time"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// talk is an established connection on which a byte is sent at each step, and comes back.
type talk struct {
	way
	connection

	mu      sync.Mutex // guards all below
	answers int
	// silence is the longest time until a byte came back, and err what has ended the connection.
	silence time.Duration
	err     error
}

// talk starts one, which ends with the test.
func (h *host) talk(w way) *talk {
	h.Helper()
	t, done := &talk{way: w, connection: h.dial(w.name, w.from, w.to)}, make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		ticker := time.NewTicker(step)
		defer ticker.Stop()
		for t.exchange() {
			select {
			case <-ticker.C:
			case <-done:
				return
			}
		}
	})
	h.Cleanup(func() {
		close(done)
		_ = t.Close() // it may wait for an answer
		group.Wait()
	})
	return t
}

// exchange reports whether the connection is still there.
func (t *talk) exchange() bool {
	began := time.Now()
	buffer := []byte{1}
	_, err := t.Write(buffer)
	if err == nil {
		_, err = t.Read(buffer)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.silence, t.err = max(t.silence, time.Since(began)), err
	t.answers++
	return err == nil
}

func (t *talk) state() (answers int, silence time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answers, t.silence, t.err
}

// requireKept fails the test unless bytes that are sent from now on come back.
func (h *host) requireKept(t *talk) {
	h.Helper()
	before, _, err := t.state()
	sandbox.Eventually(h, "an answer on the connection "+t.way.name, func() bool {
		var now int
		now, _, err = t.state()
		return now > before+1 || err != nil // the first one may have been sent before
	})
	if err != nil {
		h.Errorf("the connection %s is lost: %v", t.way.name, err)
	}
}

// silences describes connections.
func silences(talks []*talk) string {
	var texts []string
	for _, t := range talks {
		_, silence, err := t.state()
		text := t.way.name + " " + silence.Round(time.Millisecond).String()
		if err != nil {
			text = t.way.name + " lost"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}
