// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/agent/client"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// used is the resources of a process.
type used struct{ kib, threads, files int }

func usedBy(t *testing.T, pid int) (u used) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]*int{"VmRSS:": &u.kib, "Threads:": &u.threads} {
		_, rest, found := strings.Cut(string(status), name)
		if _, err := fmt.Sscan(rest, value); !found || err != nil {
			t.Fatalf("%v in %s", err, status)
		}
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	u.files = len(files)
	return u
}

// TestLongFlat sets up and tears down allocations, ten in each round. The memory, threads and
// open files of the agent do not grow.
func TestLongFlat(t *testing.T) {
	h := newHost(t)
	d := &daemon{host: h}
	d.serve()
	const width = 5
	work := func(times uint64) {
		t.Helper()
		err := each(width, width, func(i int) error {
			for range times / width {
				if err := upAndDown(fmt.Sprintf("flat-%d", i), api.Setup{Primary: api.Selection{{Name: "storage"}}}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	work(100) // until pools and caches are filled
	before := usedBy(t, d.cmd.Process.Pid)
	work(10 * rounds)
	var after used
	sandbox.Eventually(t, "the agent has no more than before", func() bool { // connections end with a delay
		after = usedBy(t, d.cmd.Process.Pid)
		return after.kib <= before.kib+8<<10 && after.files <= before.files+5
	}, func() string {
		return fmt.Sprintf("before %+v, after %d set-ups and teardowns %+v", before, 10*rounds, after)
	})
	// Threads stay, as many as were ever needed at once: a loaded machine needs
	// more, and a leak has one for each operation.
	if after.threads > before.threads+int(2*rounds) {
		t.Errorf("before %+v, after %d set-ups and teardowns %+v", before, 10*rounds, after)
	}
	t.Logf("before %+v, after %d set-ups and teardowns %+v", before, 10*rounds, after)
	d.stop()
}

func upAndDown(id string, body api.Setup) error {
	c := client.New(socket)
	if _, err := c.Setup(context.Background(), id, body); err != nil {
		return fmt.Errorf("set up %s: %w", id, err)
	}
	if err := c.Teardown(context.Background(), id); err != nil {
		return fmt.Errorf("tear down %s: %w", id, err)
	}
	return nil
}

// TestLongCrowd sets up two allocations for each round at once, with three networks each, and
// then tears down all at once. No two have an address in common.
func TestLongCrowd(t *testing.T) {
	h := newHost(t)
	d := &daemon{host: h}
	d.serve()
	n := int(2 * rounds)
	id := func(i int) string { return fmt.Sprintf("crowd-%d", i) }
	var mu sync.Mutex
	owner := map[netip.Prefix]string{}
	err := each(n, n, func(i int) error {
		a, err := client.New(socket).Setup(context.Background(), id(i), api.Setup{
			Primary: api.Selection{{Name: "web"}}, Networks: api.Selection{{Name: "storage"}, {Name: "vlan"}},
			Ports: []api.Port{{HostPort: 9000 + i, To: 80, Protocol: "tcp"}},
		})
		if err != nil {
			return fmt.Errorf("set up %s: %w", id(i), err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, attachment := range a.Attachments {
			for _, address := range attachment.Addresses {
				if other, taken := owner[address]; taken {
					return fmt.Errorf("%s has the address %s of %s", id(i), address, other)
				}
				owner[address] = id(i)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if want := 4 * n; len(owner) != want { // storage has both families
		t.Errorf("%d addresses, want %d", len(owner), want)
	}
	if err := each(n, n, func(i int) error { return client.New(socket).Teardown(context.Background(), id(i)) }); err != nil {
		t.Error(err)
	}
	d.stop()
	sandbox.RequireSame(t, h.before)
}

// each calls do for 0 to n-1, at most width of them at a time.
func each(n, width int, do func(i int) error) error {
	var all sync.WaitGroup
	places := make(chan struct{}, width)
	errs := make([]error, n)
	for i := range n {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			errs[i] = do(i)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
