// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/exhaustive"
)

// creationMark is in the environment of a process that runs ADD once. Its value is the number of a creation, and who executes it.
const creationMark = "ALLOCNET_DIFFERENTIAL_CREATION"

// creations are what the kernel is asked to make. The basic ones of each family come first.
func creations() (all []configuration) {
	kinds := []struct {
		family     family
		dimensions int
	}{{vlanFamily, 2}, {ipvlanFamily, 2}, {macvlanFamily, 0}}
	for _, k := range kinds {
		all = append(all, k.family.with(nil))
	}
	for _, k := range kinds {
		for _, v := range slices.Concat(append(k.family.dimensions[:k.dimensions:k.dimensions], k.family.single)...) {
			all = append(all, k.family.with([]variant{v}))
		}
	}
	return all
}

// TestCreation: the kernel is asked for the same link with the same attributes, in process and by the plugin, also where it makes none of
// the kind: strace records what is sent.
func TestCreation(t *testing.T) {
	for i, c := range creations() {
		test := func(t *testing.T) {
			t.Parallel()
			want, got := recorded(t, i, "plugins"), recorded(t, i, "in process")
			if !slices.Equal(want, got) {
				t.Errorf("%s\nthe plugin asks for %s\nin process it is    %s", c, strings.Join(want, "\n"), strings.Join(got, "\n"))
			}
			if isBasic := len(c.Name) <= len("macvlan"); isBasic && (len(want) != 1 || !strings.Contains(want[0], `"`+c.Name+`"`)) {
				t.Errorf("the plugin asks for %q, want one link of the kind %s", want, c.Name)
			}
		}
		exhaustive.Run(t, c.Name, test)
	}
}

// recorded returns what one executor asks the kernel for.
func recorded(t *testing.T, number int, executor string) (requests []string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "calls")
	cmd := exec.Command("strace", "-f", "-v", "-s", "65536", "-e", "trace=sendto", "-e", "signal=none", "--seccomp-bpf", "-o", out, fmt.Sprintf("/proc/%d/exe", os.Getpid()))
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", creationMark, number, executor))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS}
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("strace of ADD: %v: %s", err, text)
	}
	calls, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(calls)) {
		if strings.Contains(line, "nlmsg_type=RTM_NEWLINK") && strings.Contains(line, "NLM_F_CREATE") && strings.Contains(line, "IFLA_INFO_KIND") {
			requests = append(requests, normalised(line))
		}
	}
	return requests
}

// varying are parts of a request that differ from one to the next: where it is sent, its number, and random names and MACs.
var varying = []struct {
	of *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`^.*?sendto\(\d+, `), ""},
	{regexp.MustCompile(`nlmsg_seq=\d+`), "nlmsg_seq=N"},
	{regexp.MustCompile(`IFLA_NET_NS_FD\], \d+`), "IFLA_NET_NS_FD], N"},
	{regexp.MustCompile(`nla_len=\d+, nla_type=IFLA_IFNAME\}, "[a-z]{3,4}[0-9a-f]+"`), "nla_type=IFLA_IFNAME}, NAME"},
	{regexp.MustCompile(`nla_len=\d+, nla_type=IFLA_NET_NS_FD\}, \d+`), "nla_type=IFLA_NET_NS_FD}, N"},
	{regexp.MustCompile(`\[\{nla_len=\d+, nla_type=IFLA_ADDRESS\}, [^]]*\](, )?`), ""},
	{regexp.MustCompile(`nlmsg_len=\d+`), "nlmsg_len=N"}, // with the name
	{regexp.MustCompile(`, \d+, 0, \{sa_family=.*$`), ""},
}

func normalised(line string) string {
	line = strings.TrimSpace(line)
	for _, v := range varying {
		line = v.of.ReplaceAllString(line, v.by)
	}
	return line
}

// create is the main function of a process that runs ADD once. That it fails is fine.
func create() int {
	mark, executor, _ := strings.Cut(os.Getenv(creationMark), " ")
	var number int
	_, err := fmt.Sscan(mark, &number)
	c := creations()[number]
	h, failed := newHost(false)
	if err = errors.Join(err, failed); err == nil {
		err = h.reset()
	}
	for _, command := range c.Prepare {
		if err == nil {
			err = run(command)
		}
	}
	networks, failed := attachments(c)
	if err = errors.Join(err, failed); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	either(executor == "plugins", plugins, inProcess)(add, networks)
	return 0
}
