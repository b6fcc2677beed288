// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package lease

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/dhcp"
	"github.com/allocnet/allocnet/state"
)

// detaching has the record say that the attachment is detached.
func (w *world) detaching() {
	a := w.read()
	a.Phase = state.Deleting
	w.record(a)
}

// TestGuard: a message is sent while the lease is on record and not given back; a detach that comes meanwhile waits for it.
func TestGuard(t *testing.T) {
	w := newWorld(t)
	w.answer = func(string, dhcp.Lease) (dhcp.Lease, error) {
		a, o, detached := w.read(), w.env(nil).On(state.Record{Allocation: state.Allocation{ID: "a"}}), make(chan struct{})
		err := w.guard(func() error {
			go func() {
				PrepareRelease(t.Context(), o, a, "/ns")
				close(detached)
			}()
			for range 1000 { // without the lock it has ended by then
				runtime.Gosched()
			}
			select {
			case <-detached:
				return errors.New("a detach does not wait")
			default:
				return nil
			}
		})
		if err != nil {
			t.Error(err)
		}
		<-detached
		w.detaching()
		if err := w.guard(func() error { t.Error("a message is sent"); return nil }); !errors.Is(err, errChanged) {
			t.Error(err)
		}
		return first(), nil
	}
	if got := w.round(w.keeper(nil), 30*time.Minute); got != "renew" {
		t.Error(got)
	}
}

// TestUnreadableWhileAsking: a lease that has ended is lost, also if it is not seen then whether it is on record still.
func TestUnreadableWhileAsking(t *testing.T) {
	w := newWorld(t)
	mark := filepath.Join(w.dir, "leases", "a")
	w.answer = func(string, dhcp.Lease) (dhcp.Lease, error) {
		if err := errors.Join(os.Rename(mark, mark+"-kept"), os.Symlink(mark, mark)); err != nil {
			t.Error(err)
		}
		err := w.guard(func() error { return nil })
		return dhcp.Lease{}, errors.Join(err, os.Rename(mark+"-kept", mark))
	}
	if got := w.round(w.keeper(nil), 2*time.Hour); got != "acquire" || !w.read().DHCP.Lost {
		t.Errorf("%q, and on record is %+v", got, w.read().DHCP)
	}
	w.requireConsistent()
}
