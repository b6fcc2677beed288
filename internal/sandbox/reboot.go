// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Reboot removes what a reboot of the host removes, namespaces, links, rules and /run/cni, and keeps
// the files on disk. Until the test ends the kernel has another boot ID. The caller has ended what ran in the
// namespaces.
func Reboot(t testing.TB) {
	t.Helper()
	clear(warmed)
	for _, name := range strings.Fields(Run(t, "ip", "netns", "list")) {
		_ = exec.Command("ip", "netns", "delete", name).Run() // "(id: 0)" is in the list, too
	}
	for _, link := range strings.Split(Run(t, "ip", "-o", "link"), "\n") {
		fields := strings.FieldsFunc(link, func(c rune) bool { return c == ':' || c == '@' || c == ' ' })
		if len(fields) > 1 && !slices.Contains([]string{"lo", "uplink", "wire"}, fields[1]) {
			_ = exec.Command("ip", "link", "delete", fields[1]).Run() // the other end of a pair may be gone with the first
		}
	}
	for _, command := range []string{"iptables", "ip6tables"} {
		for _, table := range []string{"nat", "filter", "mangle"} {
			Run(t, command, "-t", table, "-F")
			Run(t, command, "-t", table, "-X")
		}
	}
	if err := os.RemoveAll("/run/cni"); err != nil {
		t.Fatal(err)
	}
	newBootID(t)
}

func newBootID(t testing.TB) {
	t.Helper()
	const file = "/proc/sys/kernel/random/boot_id"
	other := filepath.Join(t.TempDir(), "boot_id")
	WriteFile(t, other, fmt.Sprintf("00000000-0000-4000-8000-%012x\n", rand.Uint64N(1<<48)))
	if err := unix.Mount(other, file, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(file, 0); err != nil {
			t.Error(err)
		}
	})
}
