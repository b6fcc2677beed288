// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
)

// lockedPool is one whose lock a process has that was stopped. Its store answers when all are asked.
type lockedPool struct{ asked *sync.WaitGroup }

func (p lockedPool) Show(context.Context) (pool.Overview, error) {
	p.asked.Done()
	p.asked.Wait()
	return pool.Overview{Blocks: []ipam.BlockContent{blockOf(thisHost, "10.91.0.64/26")}}, nil
}

func (lockedPool) Usage(ctx context.Context) (pool.Usage, error) {
	<-ctx.Done()
	return pool.Usage{}, context.Cause(ctx)
}

func (lockedPool) Status(context.Context) error { panic("it waits for the same lock") }

// TestLockedPools: pools are examined at the same time, and a lock that a stopped agent has is waited for once. What this host has is
// not compared with the store then.
func TestLockedPools(t *testing.T) {
	limit := localTimeout
	t.Cleanup(func() { localTimeout = limit })
	localTimeout = time.Millisecond
	var asked sync.WaitGroup
	asked.Add(2)
	source := PoolSource{Pool: lockedPool{&asked}, Open: func() (ipam.Store, ipam.Host, error) { return nil, thisHost, nil }}
	c := poolConfig(t, poolKey)
	c.DataDir = t.TempDir()
	locked := 0
	for _, f := range ExaminePools(t.Context(), []*ipam.Config{c, c}, []PoolSource{source, source}) {
		if f.Unexamined && !(&Report{Findings: []Finding{f}}).Healthy() && strings.Contains(f.Problem, "another process has its lock") && strings.Contains(f.Fix, "--signal=CONT") {
			locked++
		} else if strings.Contains(f.Problem, "no record here") {
			t.Errorf("it is not known, and reported: %+v", f)
		}
	}
	if locked != 2 {
		t.Errorf("%d pools are reported, want 2", locked)
	}
}

// unreadPool is one whose store is not asked.
type unreadPool struct{ SharedPool }

func (unreadPool) Show(context.Context) (pool.Overview, error) { panic("the store is asked again") }

// TestUnknownHost: a store that does not say who this host is, is not asked for more.
func TestUnknownHost(t *testing.T) {
	f := healthyPool(t)
	f.Config.DataDir = t.TempDir()
	f = collectPool(t.Context(), f.Config, PoolSource{
		Pool: unreadPool{poolOf{f}}, Open: func() (ipam.Store, ipam.Host, error) { return nil, ipam.Host{}, ipam.ErrUnavailable },
	})
	if !errors.Is(f.Unread, ipam.ErrUnavailable) {
		t.Error(f.Unread)
	}
	if found := examinePool(f); !slices.ContainsFunc(found, func(f Finding) bool { return f.Unexamined }) {
		t.Errorf("its pool is not compared with the store, and that is not said: %+v", found)
	}
}

// TestSilentNomad: that Nomad does not answer is said.
func TestSilentNomad(t *testing.T) {
	d := Doctor{ConfDirs: []string{t.TempDir()}, Unprivileged: true, NomadSilent: context.DeadlineExceeded}
	for _, f := range d.Examine(t.Context()).Findings {
		if f.Subject == "Nomad" && f.Unexamined && strings.Contains(f.Problem, "is not examined: context deadline exceeded") && strings.Contains(f.Fix, "again when it answers") {
			return
		}
	}
	t.Error("it is not said")
}
