// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/route"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// childDir is the environment variable that makes of this program one that is killed: the directory
// of its records.
const childDir = "ALLOCNET_ROUTE_CHILD"

// child makes and removes the routes of the host a until it is killed.
func child(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	ns, err := netns.Open(netns.DefaultDir + "/a")
	fail(err)
	table, p := route.New(route.Options{Dir: dir}), pool(ipam.ModeVXLAN)
	fmt.Println("begins")
	for round := 0; ; round++ {
		fail(ns.Do(func() error {
			if _, _, err := table.Device(p, ipam.Endpoint{Address: netip.MustParseAddr("172.31.0.1")}); err != nil {
				return err
			}
			_, err := table.Apply(p, nil, crowd(20+round%3*20, 5))
			if err == nil && round%4 == 3 {
				err = table.Remove(p)
			}
			return err
		}))
	}
}

// TestKilled: after a kill at any instant the next process makes all routes, or removes all.
func TestKilled(t *testing.T) {
	seed := sandbox.Number("ALLOCNET_SEED", uint64(time.Now().UnixNano()))
	t.Logf("ALLOCNET_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	h, p, targets := newHosts(t, 2)[0], pool(ipam.ModeVXLAN), crowd(30, 5)
	before := states(t, []*host{h})
	for round := range 20 {
		kill(t, h.dir, time.Duration(random.IntN(60_000))*time.Microsecond)
		h.table = route.New(route.Options{Dir: h.dir})
		if round%2 == 0 {
			h.device(t, p)
			h.do(t, func() error {
				report, err := h.table.Apply(p, nil, targets)
				for _, r := range report.Routes {
					if r.State != route.Installed {
						t.Errorf("round %d: %+v", round, r)
					}
				}
				return err
			})
		}
		leave(t, []*host{h}, before)
	}
}

// kill starts a child, and kills it after so long.
func kill(t *testing.T, dir string, after time.Duration) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	cmd.Env, cmd.Stderr = append(os.Environ(), childDir+"="+dir), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // it begins
		t.Error(err)
	}
	time.Sleep(after)
	_ = cmd.Process.Kill()
	if err := cmd.Wait(); cmd.ProcessState.Exited() {
		t.Errorf("it ended by itself: %v", err)
	}
}
