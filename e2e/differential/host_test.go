// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	vishns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// host is that of this process.
type host struct {
	snapshots snapshots
	// clean is what the host is before each run.
	clean []string
}

// newHost makes the namespaces of this process a host.
func newHost(legacy bool) (*host, error) {
	for _, dir := range []string{"/run", "/var/lib"} {
		if err := sandbox.Cover(dir); err != nil {
			return nil, err
		}
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return nil, fmt.Errorf("mount /sys of the new namespace: %w", err)
	}
	// Without link-local addresses and duplicate address detection, which come a while after
	// a link.
	if err := sandbox.ResetSysctls(); err != nil {
		return nil, err
	}
	err := run("ip link set lo up && sysctl -qw net.ipv6.conf.default.addr_gen_mode=1 net.ipv6.conf.default.accept_dad=0")
	if err != nil {
		return nil, err
	}
	if legacy {
		if err := useLegacy(); err != nil {
			return nil, err
		}
	}
	h := &host{}
	h.clean, err = h.snapshots.take()
	return h, err
}

// useLegacy lets the programs of iptables be those of the old backend, and makes its tables, which
// cannot be removed.
func useLegacy() error {
	const dir = "/mnt"
	if err := sandbox.Cover(dir); err != nil {
		return err
	}
	if err := os.Setenv("PATH", dir+":"+os.Getenv("PATH")); err != nil {
		return err
	}
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, suffix := range []string{"", "-save", "-restore"} {
			path, err := exec.LookPath(family + "-legacy" + suffix)
			if err != nil {
				return err
			}
			if err := os.Symlink(path, dir+"/"+family+suffix); err != nil {
				return err
			}
		}
		if err := run(family + " -t nat -S && " + family + " -t filter -S"); err != nil {
			return err
		}
	}
	return nil
}

// reset wipes the host, and makes a new namespace for the allocation.
func (h *host) reset() error {
	if err := errors.Join(vanishNamespace(), removeLinks(), h.removeRules()); err != nil {
		return err
	}
	for _, dir := range []string{"/run", "/var/lib"} {
		if err := removeContents(dir); err != nil {
			return err
		}
	}
	for _, name := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding", "net/ipv6/conf/default/forwarding"} {
		if err := os.WriteFile("/proc/sys/"+name, []byte("0"), 0); err != nil {
			return err
		}
	}
	h.snapshots.reset()
	got, err := h.snapshots.take()
	if err != nil {
		return err
	}
	if left := difference(h.clean, got, false); len(left) > 0 {
		return fmt.Errorf("the host was not wiped:\n%s", strings.Join(left, "\n"))
	}
	return createNamespace()
}

func removeContents(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		path := dir + "/" + entry.Name()
		switch {
		case sandbox.IsKept(path):
		case sandbox.HasKept(path):
			err = errors.Join(err, removeContents(path))
		default:
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	return err
}

// wipedGroup is the group of links that are removed. There is no other.
const wipedGroup = 4711

// removeLinks removes all links but lo.
func removeLinks() error {
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	links = slices.DeleteFunc(links, func(l netlink.Link) bool { return l.Attrs().Name == "lo" })
	if len(links) == 0 {
		return nil
	}
	for _, l := range links {
		if err := netlink.LinkSetGroup(l, wipedGroup); err != nil && !errors.Is(err, unix.ENODEV) {
			return err
		}
	}
	request := nl.NewNetlinkRequest(unix.RTM_DELLINK, unix.NLM_F_ACK)
	request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	request.AddData(nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(wipedGroup)))
	if _, err := request.Execute(unix.NETLINK_ROUTE, 0); err != nil && !errors.Is(err, unix.ENODEV) {
		return err
	}
	return nil
}

func (h *host) removeRules() error {
	err := error(nil)
	if h.snapshots.hasRules() {
		err = run("nft flush ruleset")
	}
	for _, family := range []string{"", "6"} {
		names, _ := os.ReadFile("/proc/thread-self/net/ip" + family + "_tables_names")
		for _, table := range strings.Fields(string(names)) {
			program := fmt.Sprintf("ip%stables-legacy -t %s", family, table)
			err = errors.Join(err, run(program+" -F && "+program+" -X"))
			if table == "filter" {
				err = errors.Join(err, run(program+" -P FORWARD ACCEPT"))
			}
		}
	}
	return err
}

// createNamespace makes the namespace of the allocation, with lo down.
func createNamespace() error {
	runtime.LockOSThread()
	own, err := vishns.Get()
	if err != nil {
		return err
	}
	defer own.Close()
	created, err := vishns.NewNamed(namespaceName)
	if err != nil {
		return err
	}
	defer created.Close()
	if err := vishns.Set(own); err != nil {
		return err // with the thread, which is in the wrong namespace
	}
	runtime.UnlockOSThread()
	return nil
}

// vanishNamespace removes the namespace of the allocation, and its links first: the kernel would do
// that a while later.
func vanishNamespace() error {
	if err := inNamespace(removeLinks); err != nil {
		return err
	}
	err := vishns.DeleteNamed(namespaceName)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// run runs a command of the shell.
func run(command string) error {
	if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, out)
	}
	return nil
}
