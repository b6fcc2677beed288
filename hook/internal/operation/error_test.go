// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package operation

import (
	"errors"
	"testing"
)

func TestErrorNamesAll(t *testing.T) {
	cause := errors.New("no such VLAN")
	err := &Error{Op: "attach", Allocation: "a1", Network: "storage", Interface: "net1", Attempts: 3, Err: cause}
	if got := err.Error(); got != `attach network "storage" as net1 of allocation a1 (3 attempts): no such VLAN` || !errors.Is(err, cause) {
		t.Errorf("got %s", got)
	}
}
