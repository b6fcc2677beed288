// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// TestDamagedRecord: a record that cannot be read stops nothing. The address stays with the
// attachment that has the lease, and is given back when there is none.
func TestDamagedRecord(t *testing.T) {
	for _, content := range []string{"", "{", `{"state": "held"}`, `{"content": {"address": "10.0.0.19"}}`, "\x00"} {
		c := newCluster(t)
		one, two := c.newHost(1), c.newHost(2)
		one.mustTake(allocation("a", "web", "10.0.0.17"), "10.0.0.17")
		path := filepath.Join(string(one.records.(directory)), recordName(netip.MustParseAddr("10.0.0.17")))
		damage := func() {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		damage()
		one.mustFail(allocation("b", "web", "10.0.0.17"), ipam.ErrInvalid, "another container has it on this host")
		one.mustTake(allocation("b", "web", "10.0.0.18"), "10.0.0.18")
		if _, err := one.Verify(t.Context()); err != nil {
			t.Fatalf("%q: %v", content, err)
		}
		one.mustTake(allocation("a", "web", "10.0.0.17"), "10.0.0.17")
		one.mustHaveRecords(2)
		damage()
		one.mustFree("a")
		if err := one.leases.Remove(t.Context(), netip.MustParseAddr("10.0.0.17"), attachment("a")); err != nil { // as DEL does
			t.Fatal(err)
		}
		if v, err := one.Verify(t.Context()); err != nil || len(v.Freed) != 1 {
			t.Errorf("%q: %+v, %v", content, v, err)
		}
		c.pass(time.Minute)
		two.mustTake(allocation("d", "db", "10.0.0.17"), "10.0.0.17")
	}
}

// TestOddKeys: a key is any text, and others are other keys.
func TestOddKeys(t *testing.T) {
	c := newCluster(t)
	one, two := c.newHost(1), c.newHost(2)
	had := map[string]string{}
	for i, key := range []string{strings.Repeat("k", 256), `a/b "c"; <ä> \n`, " ", "\U0010FFFF"} {
		id := fmt.Sprint("a", i)
		got := one.mustTake(sticky(id, "web", key), "", 4, 6)
		if had[got] != "" {
			t.Errorf("%q gets %s, which %q has", key, got, had[got])
		}
		had[got] = key
	}
	for i := range len(had) {
		one.mustFree(fmt.Sprint("a", i))
	}
	c.pass(time.Hour)
	for want, key := range had {
		two.mustTake(sticky("b"+key, "web", key), want, 4, 6)
	}
}
