// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/allocnet/allocnet/state"
)

// TestHostForgetsWhatPluginsDetach: the host does not know an attachment whose plugins have detached it, also if another process has told it of all on record
// meanwhile.
func TestHostForgetsWhatPluginsDetach(t *testing.T) {
	for name, failing := range map[string]map[string]error{"DEL": {}, "forced cleanup": {"DEL bridge eth0": errors.New("x")}} {
		w := newWorld(t, apartInside(t, false))
		if err := errors.Join(setup(runtimeRequest)(w), setup(ownRequest)(w)); err != nil {
			t.Fatal(err)
		}
		before, told := maps.Clone(w.filter.members), 0
		maps.Copy(w.failing, failing)
		w.onCall = func(int, bool) {
			w.asAnother(t, "own", func(record state.Record) {
				for _, a := range record.Attachments {
					if m, ok := before[a.ContainerID]; ok {
						w.filter.members[m.ID], told = m, told+1
					}
				}
			})
		}
		if err := teardown("own")(w); err != nil || told == 0 {
			t.Errorf("%s: told %d times of %d, %v", name, told, len(before), err)
		}
		for id := range w.filter.members {
			if strings.HasPrefix(id, "own") {
				t.Errorf("%s: the host knows %s, which is not on record", name, id)
			}
		}
	}
}

// TestForgottenAfterTheDeadline: what forced cleanup has removed is on record no more, also if DEL has taken all the time of the call.
func TestForgottenAfterTheDeadline(t *testing.T) {
	w := newWorld(t, apartInside(t, false))
	if err := errors.Join(setup(runtimeRequest)(w), setup(ownRequest)(w)); err != nil {
		t.Fatal(err)
	}
	late := expired{context.Background(), make(chan struct{})}
	end := sync.OnceFunc(func() { close(late.over) })
	w.ctx, w.onCall = late, func(int, bool) { end() }
	err := teardown("own")(w)
	w.ctx, w.onCall = t.Context(), nil
	if record, errRead := w.env.Store.Read("own"); err != nil || errRead == nil {
		t.Errorf("%v, and on record is %+v", err, record.Attachments)
	}
}

// expired is the context of a call whose deadline is when over is closed.
type expired struct {
	context.Context

	over chan struct{}
}

func (e expired) Done() <-chan struct{} { return e.over }

func (e expired) Err() error {
	select {
	case <-e.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
