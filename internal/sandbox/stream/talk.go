// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package stream

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// Talk is an established connection on which a byte is sent at each step, and comes back.
type Talk struct {
	Way
	conn net.Conn

	mu      sync.Mutex // guards all below
	answers int
	// silence is the longest time until a byte came back, and err what has ended the connection.
	silence time.Duration
	err     error
}

// StartTalk starts one, which ends with the test.
func StartTalk(t testing.TB, w Way) *Talk {
	t.Helper()
	talk, done := &Talk{Way: w}, make(chan struct{})
	within(t, w.From, func() (err error) {
		talk.conn, err = net.DialTimeout("tcp", w.To, 20*time.Second)
		return err
	})
	var group sync.WaitGroup
	group.Go(func() {
		ticker := time.NewTicker(Step)
		defer ticker.Stop()
		for talk.exchange() {
			select {
			case <-ticker.C:
			case <-done:
				return
			}
		}
	})
	t.Cleanup(func() {
		close(done)
		_ = talk.conn.Close() // it may wait for an answer
		group.Wait()
	})
	RequireKept(t, talk)
	return talk
}

// exchange reports whether the connection is still there.
func (t *Talk) exchange() bool {
	began := time.Now()
	buffer := []byte{1}
	_, err := t.conn.Write(buffer)
	if err == nil {
		_, err = t.conn.Read(buffer)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.silence, t.err = max(t.silence, time.Since(began)), err
	t.answers++
	return err == nil
}

func (t *Talk) state() (answers int, silence time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answers, t.silence, t.err
}

// RequireKept fails the test unless bytes that are sent from now on come back.
func RequireKept(t testing.TB, talk *Talk) {
	t.Helper()
	before, _, err := talk.state()
	sandbox.Eventually(t, "an answer on the connection "+talk.Name, func() bool {
		var now int
		now, _, err = talk.state()
		return now > before+1 || err != nil // the first one may have been sent before
	})
	if err != nil {
		t.Errorf("the connection %s is lost: %v", talk.Name, err)
	}
}

// Silences describes connections.
func Silences(talks []*Talk) string {
	var texts []string
	for _, t := range talks {
		_, silence, err := t.state()
		text := t.Name + " " + silence.Round(time.Millisecond).String()
		if err != nil {
			text = t.Name + " lost"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}
