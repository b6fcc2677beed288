// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"fmt"
	"testing"
)

// TestKilledAfterForcedCleanup: the previous default route comes back after a kill,
// also if DEL failed and forced cleanup removed the attachment that displaced it.
func TestKilledAfterForcedCleanup(t *testing.T) {
	i := install(t)
	request := taskRequest
	request.Networks = request.Networks[:1]
	k := killable{
		find: inTurn(extend(request), func(w *world) error {
			w.failing["DEL macvlan net1"] = errors.New("the device is busy")
			return nil
		}),
		call: release, again: release, id: "task",
	}
	for at, effect := range k.effects(t, i) {
		t.Run(fmt.Sprintf("before %d, %s", at, effect), func(t *testing.T) {
			w := k.world(t, i)
			w.killAt(at, false)
			k.dieAndRecover(t, w, afterKill["the same request"])
		})
	}
}
