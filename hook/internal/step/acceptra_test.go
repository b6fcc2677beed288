// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package step

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// advertised is a namespace whose interface has an address of a router some time after it was made; zero: never.
type advertised struct {
	kernel.Namespace
	made  time.Time
	after time.Duration
}

func (n *advertised) Interfaces() ([]netns.Interface, error) {
	i := netns.Interface{Name: "eth0"}
	if n.after > 0 && time.Since(n.made) >= n.after {
		i.Advertised = []netip.Prefix{netip.MustParsePrefix("fd00::5/64")}
	}
	return []netns.Interface{{Name: "eth1", Advertised: []netip.Prefix{netip.MustParsePrefix("fd00::6/64")}}, i}, nil
}

// TestAwaitRA: an attachment waits for the address of its own interface, ten seconds, and not if its network does not ask for that.
func TestAwaitRA(t *testing.T) {
	for name, test := range map[string]struct {
		awaits bool
		after  time.Duration
		ends   time.Duration
		want   string
	}{
		"not asked for": {false, 0, 0, ""},
		"at once":       {true, time.Nanosecond, advertisedEvery, ""},
		"late":          {true, 9 * time.Second, 10 * time.Second, ""},
		"never":         {true, 0, advertisedWithin, "no router has given it an IPv6 address within 10s"},
		"too late":      {true, 11 * time.Second, advertisedWithin, "no router"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				n := &advertised{made: began, after: test.after}
				w := &Work{Namespace: func() (kernel.Namespace, error) { return n, nil }}
				a := state.Attachment{Interface: "eth0", AwaitRA: test.awaits}
				err := awaitRA(t.Context(), w, &a)
				if (err != nil) != (test.want != "") || err != nil && (!strings.Contains(err.Error(), test.want) || errdefs.Of(err) != errdefs.Unavailable) {
					t.Errorf("%v, want %q", err, test.want)
				}
				if has := len(a.Advertised) == 1 && a.Advertised[0].String() == "fd00::5/64"; has != (test.awaits && err == nil) || time.Since(began) > test.ends {
					t.Errorf("after %s it has %v", time.Since(began), a.Advertised)
				}
			})
		})
	}
}

// TestAwaitRAEnds with its call.
func TestAwaitRAEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancelCause(t.Context())
		over := errors.New("over")
		time.AfterFunc(time.Second, func() { stop(over) })
		w := &Work{Namespace: func() (kernel.Namespace, error) { return &advertised{}, nil }}
		began := time.Now()
		if err := awaitRA(ctx, w, &state.Attachment{Interface: "eth0", AwaitRA: true}); !errors.Is(err, over) || time.Since(began) != time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

// TestAwaitedLast: an attachment waits when all else is done, and a failure names it.
func TestAwaitedLast(t *testing.T) {
	var got []string
	note := func(what string) { got = append(got, what) }
	withTable(t, step{
		Awaited:   func(context.Context, *Work, *state.Attachment) error { note("awaited"); return errors.New("none") },
		Completed: func(*Work, *state.Attachment) error { note("completed"); return nil },
	})
	w := &Work{Fail: func(a state.Attachment, err error) error { return errors.New(a.Interface + ": " + err.Error()) }}
	if err := w.Finish(t.Context(), &plan.Plan{Added: []plan.Attachment{{Attachment: &state.Attachment{Interface: "eth0"}}}}); err == nil || err.Error() != "eth0: none" || !slices.Equal(got, []string{"completed", "awaited"}) {
		t.Errorf("%q: %v", got, err)
	}
}
