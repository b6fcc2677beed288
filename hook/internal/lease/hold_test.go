// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package lease

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allocnet/allocnet/internal/dhcp"
	"github.com/allocnet/allocnet/internal/dhcp/client"
	"github.com/allocnet/allocnet/state"
)

// detaching has the record say that the attachment is detached.
func (w *world) detaching() {
	a := w.read()
	a.Phase = state.Deleting
	w.record(a)
}

// TestDetachedWhileAsking: no server is asked for another lease of an attachment that is being detached, and while one is asked the
// allocation is locked, so that a detach finds what the server gives.
func TestDetachedWhileAsking(t *testing.T) {
	for _, detached := range []bool{true, false} {
		w := newWorld(t)
		w.answer = func(asked string, _ dhcp.Lease) (dhcp.Lease, error) {
			if asked == "renew" {
				if detached {
					w.detaching()
				}
				return dhcp.Lease{}, client.ErrRefused
			}
			if lock, err := w.env(nil).Store.TryLock("a"); !errors.Is(err, state.ErrLocked) {
				t.Errorf("the lock of the allocation while a server gives a lease: %v, %v", lock, err)
			}
			return other(), nil
		}
		want, address := "renew acquire", other().Address
		if detached {
			want, address = "renew", first().Address
		}
		if got := w.round(w.keeper(nil), 30*time.Minute); got != want || w.read().DHCP.Address != address {
			t.Errorf("detached %t: %q, and on record is %s", detached, got, w.read().DHCP.Address)
		}
	}
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

// TestLockedWhileAsking: a lease that a server refuses is replaced also if something else has the allocation for longer than servers are asked.
func TestLockedWhileAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = func(asked string, _ dhcp.Lease) (dhcp.Lease, error) {
			if asked == "renew" {
				return dhcp.Lease{}, client.ErrRefused
			}
			return other(), nil
		}
		lock, err := w.env(nil).Store.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(2*client.Timeout, lock.Unlock)
		if got := w.round(w.keeper(nil), 30*time.Minute); !strings.HasSuffix(got, "renew acquire") || w.read().DHCP.Address != other().Address || len(w.observed) != 1 {
			t.Errorf("%q, and on record is %+v; %q", got, w.read().DHCP, w.observed)
		}
		w.requireConsistent()
	})
}
