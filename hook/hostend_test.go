// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"testing"

	types "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/internal/netns"
)

// TestFindEnd: the end on the host of a pair has its name, whatever its MAC is now, or was renamed. That the links cannot be
// listed does not mean that it is gone.
func TestFindEnd(t *testing.T) {
	failed := errors.New("no buffer space available")
	tap := []netns.Interface{{Name: "tap1", Kind: "veth", MAC: "02:00:00:00:00:0a"}}
	for name, test := range map[string]struct {
		host *fakeHost
		want string
		err  error
	}{
		"not renamed": {&fakeHost{links: map[string]bool{"veth00000001": true}, interfaces: tap}, "veth00000001", nil},
		"renamed":     {&fakeHost{interfaces: tap}, "tap1", nil},
		"gone":        {&fakeHost{}, "", nil},
		"not listed":  {&fakeHost{unlisted: failed}, "", failed},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := inspect.FindEnd(test.host, &types.Interface{Name: "veth00000001", Mac: "02:00:00:00:00:0a"})
			if !errors.Is(err, test.err) || got != test.want {
				t.Errorf("%q, %v, want %q, %v", got, err, test.want, test.err)
			}
		})
	}
}
