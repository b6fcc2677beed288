// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/allocnet/allocnet/internal/netns"
)

// manager is a program that configures links of the host.
type manager struct {
	// process is its name as the kernel shortens it.
	process, name string
	// list prints a line for each link, which link matches: with the name of the link, and what the manager does with it.
	list []string
	link *regexp.Regexp
	// exclude is the command that excludes links by patterns of names, with one place for these and what is between two.
	exclude, separator string
}

var managers = []manager{
	{
		process: "systemd-network", name: "systemd-networkd",
		list: []string{"networkctl", "--full", "--no-legend", "--no-pager", "list"}, link: regexp.MustCompile(`(?m)^ *\d+ +(\S+) .*?(\S+) *$`),
		exclude: `printf '[Match]\nName=%s\n[Link]\nUnmanaged=yes\n' >/etc/systemd/network/00-cni.network && networkctl reload`, separator: " ",
	},
	{
		process: "NetworkManager", name: "NetworkManager",
		list: []string{"nmcli", "--get-values", "DEVICE,STATE", "device"}, link: regexp.MustCompile(`(?m)^([^:]+):(.*)$`),
		exclude: `printf '[keyfile]\nunmanaged-devices+=interface-name:%s\n' >/etc/NetworkManager/conf.d/00-cni.conf && nmcli general reload`, separator: ";interface-name:",
	},
}

// leaves matches what the managers say of links that they do not configure, or not yet.
var leaves = regexp.MustCompile(`^(unmanaged|unavailable|pending|initialized|linger|.*\(externally\))$`)

// managedLinks reports links of attachments that network managers configure: these take ports out of bridges, and
// remove addresses and routes. The programs are those that run.
func managedLinks(r *Report, links func() ([]netns.Interface, error), programs []string, output func(command []string) (string, error)) {
	own, err := links()
	if err != nil {
		r.addUnexamined("host", "its links are not examined: "+err.Error(), "run allocnet doctor again")
		return
	}
	for _, m := range managers {
		if !slices.Contains(programs, m.process) {
			continue
		}
		list, err := output(m.list)
		if err != nil {
			r.addUnexamined(m.name, fmt.Sprintf("what it configures is not examined: %s: %v", m.list[0], err), "run allocnet doctor again")
			continue
		}
		if names, patterns := m.configures(list, own); len(names) > 0 {
			r.addError(m.name, fmt.Sprintf("configures %s: it takes ports out of bridges, and removes addresses and routes", listing(names)),
				fmt.Sprintf(m.exclude, strings.Join(patterns, m.separator)))
		}
	}
}

// configures returns the names of links of attachments that the manager configures, by what it lists, and patterns of all
// links of attachments: the file of the command may have been written before.
func (m manager) configures(list string, own []netns.Interface) (names, patterns []string) {
	configured := map[string]bool{}
	for _, link := range m.link.FindAllStringSubmatch(list, -1) {
		configured[link[1]] = !leaves.MatchString(link[2])
	}
	for _, link := range own {
		pattern := patternOf(link)
		if pattern == "" {
			continue
		}
		if configured[link.Name] {
			names = append(names, link.Name)
		}
		if !slices.Contains(patterns, pattern) {
			patterns = append(patterns, pattern)
		}
	}
	return names, patterns
}

// patternOf returns what matches the name of a link of attachments, and names that are chosen as it was; empty for links
// of others. A bridge without the group may be the operator's, who would lose its addresses.
func patternOf(link netns.Interface) string {
	switch {
	case netns.IsPluginVeth(link.Name):
		return "veth????????"
	case link.Kind == "ifb" && len(link.Name) == len("bwp0123456789ab") && strings.HasPrefix(link.Name, "bwp"):
		return "bwp????????????"
	case link.Group == netns.LinkGroup:
		return link.Name
	}
	return ""
}

// managerTimeout is the deadline of a program that asks a network manager.
var managerTimeout = 10 * time.Second

// outputOf returns a function that executes a command, whose output is not translated.
func outputOf(ctx context.Context) func(command []string) (string, error) {
	return func(command []string) (string, error) {
		ctx, stop := context.WithTimeoutCause(ctx, managerTimeout, fmt.Errorf("no answer in %s", managerTimeout))
		defer stop()
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		cmd.WaitDelay = time.Second // a process that it has started may keep the output open
		out, err := cmd.Output()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return string(out), err
	}
}
