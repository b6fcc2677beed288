// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// volatile matches text that changes without a leak: counters,
// handles, and the dates in the comments of iptables-save.
var volatile = regexp.MustCompile(`(?m)^#.*\n|\[\d+:\d+\]|counter packets \d+ bytes \d+|handle \d+`)

// Snapshot returns as text everything that allocnet and the plugins could leave on
// the host: links, addresses, routes, rules, queues, files and processes.
func Snapshot(t testing.TB, dirs ...string) string {
	t.Helper()
	var b strings.Builder
	section := func(name, text string) { fmt.Fprintf(&b, "== %s\n%s\n", name, strings.TrimSpace(text)) }
	host := List(t, "")
	section("links", host.links())
	section("ip addresses", host.Addresses())
	section("ip routes", host.Routes(unix.AF_INET, unix.RT_TABLE_MAIN))
	section("ip rules", host.Rules(unix.AF_INET))
	section("tc queues", host.queues())
	ruleset := Run(t, "nft", "list", "ruleset")
	section("nft list ruleset", volatile.ReplaceAllString(ruleset, ""))
	for _, command := range IPTablesListings(ruleset) {
		section(command, volatile.ReplaceAllString(Run(t, strings.Fields(command)...), ""))
	}
	for _, dir := range append([]string{"/var/lib", "/run/cni", "/run/netns", "/etc/netns"}, dirs...) {
		section(dir, listFiles(t, dir))
	}
	section("plugin processes", strings.Join(PluginProcesses(), "\n"))
	return b.String()
}

// IPTablesListings returns, for what nft lists, the commands that list the rules of those iptables that have a table: the
// others list nothing.
func IPTablesListings(ruleset string) (commands []string) {
	for _, family := range iptablesFamilies {
		if strings.Contains("\n"+ruleset, family.nft) {
			commands = append(commands, family.program+"-nft-save")
		}
		if names, err := os.ReadFile(family.legacy); len(names) != 0 || err != nil {
			commands = append(commands, family.program+"-legacy-save")
		}
	}
	return commands
}

// Inventory returns the lines of the snapshot without their order: after a reboot it is another.
func Inventory(t testing.TB) []string {
	t.Helper()
	lines := strings.Split(Snapshot(t), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	slices.Sort(lines)
	return lines
}

// settled is how long a difference stays that nothing is about to remove. It is no measure of speed: on no
// machine do the kernel and processes that end need as much for one step.
const settled = time.Minute

// RequireSame fails the test when the host is not as the snapshot has it. The
// kernel takes a moment to remove the links of a namespace that is gone, longer
// on a loaded machine.
func RequireSame(t testing.TB, before string, dirs ...string) {
	t.Helper()
	difference := func() string {
		return gocmp.Diff(strings.Split(before, "\n"), strings.Split(Snapshot(t, dirs...), "\n"))
	}
	diff := difference()
	if t.Failed() && diff != "" { // the leak of a failed test remains
		t.Logf("the host is not as it was (-before +after):\n%s", diff)
		return
	}
	for since := time.Now(); diff != ""; {
		look := time.Now()
		now := difference()
		if now != diff {
			diff, since = now, time.Now()
		}
		if time.Since(since) > settled {
			t.Fatalf("the host is not as it was (-before +after):\n%s", diff)
		}
		time.Sleep(PauseAfter(time.Since(look)))
	}
}

// Run runs a command and returns what it prints; its failure is the test's.
func Run(t testing.TB, words ...string) string {
	t.Helper()
	out, err := exec.Command(words[0], words[1:]...).Output()
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(words, " "), err)
	}
	return string(out)
}

// listFiles lists the files below dir with their contents, except host-local's note
// of where to search next, which all leases of a range share, and leaves out
// allocnet's events, its note of which boot it has seen, and its index of many leases.
func listFiles(t testing.TB, dir string) string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == "/var/lib/allocnet/boot" || strings.HasSuffix(path, ".owners") {
			return nil
		}
		if entry.IsDir() && (entry.Name() == "events" || IsKept(path)) {
			return fs.SkipDir
		}
		if !entry.Type().IsRegular() || strings.HasPrefix(entry.Name(), "last_reserved_ip.") {
			lines = append(lines, path)
			return nil
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, unix.EINVAL) { // a namespace
			err = nil
		}
		lines = append(lines, fmt.Sprintf("%s %q", path, data))
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// PluginProcesses returns the command lines of the processes that run for a
// CNI call of this sandbox.
func PluginProcesses() []string {
	own, _ := os.Readlink("/proc/self/ns/mnt")
	entries, _ := filepath.Glob("/proc/[0-9]*/environ")
	var found []string
	for _, path := range entries {
		environ, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(environ), "CNI_CONTAINERID=") {
			continue
		}
		process := filepath.Dir(path)
		if ns, _ := os.Readlink(process + "/ns/mnt"); ns != own {
			continue
		}
		line, _ := os.ReadFile(process + "/cmdline")
		found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
	}
	return found
}
