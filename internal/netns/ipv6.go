// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"fmt"

	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/sysctl"
)

func disableOf(link string) string { return "net/ipv6/conf/" + link + "/disable_ipv6" }

// suspended is disable_ipv6 of new interfaces while ADD makes one without IPv6. To the kernel each number but 0 is off; this one
// says after a kill that IPv6 was on before.
const suspended = "2"

// IsIPv6Off tells whether IPv6 is switched off on an interface.
func (n *Namespace) IsIPv6Off(iface string) (off bool, err error) {
	err = withParameters(n, func(s *sysctl.Tree) (err error) {
		off, err = isIPv6Off(s, iface)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("read disable_ipv6 of %s in %s: %w", iface, n.path, err)
	}
	return off, nil
}

// IsIPv6Off tells so of an interface of the caller's namespace, or of NewInterfaces.
func IsIPv6Off(iface string) (bool, error) {
	var s sysctl.Tree
	return isIPv6Off(&s, iface)
}

func isIPv6Off(s *sysctl.Tree, iface string) (bool, error) {
	value, err := files.IfExists(s.Get(disableOf(iface)))
	return value != "0", err
}

// SwitchIPv6Off switches IPv6 off on a link of the caller's namespace. A kernel or a link without IPv6 has nothing to switch.
func SwitchIPv6Off(s *sysctl.Tree, link string) error {
	if err := setExisting(s, disableOf(link), "1"); err != nil {
		return fmt.Errorf("switch IPv6 off on %s: %w", link, err)
	}
	return nil
}

// SwitchIPv6Off switches IPv6 off on an interface of the namespace.
func (n *Namespace) SwitchIPv6Off(iface string) error {
	return withParameters(n, func(s *sysctl.Tree) error { return SwitchIPv6Off(s, iface) })
}

// SuspendIPv6 has new interfaces of the caller's namespace come without IPv6, until ResumeIPv6. Where they do so anyway, both change
// nothing. Neither waits for the kernel's lock of links, as SwitchIPv6Off does, and that in a loop.
func SuspendIPv6(s *sysctl.Tree) error { return replaceDefault(s, "0", suspended) }

// ResumeIPv6 undoes SuspendIPv6, which a killed process may have called.
func ResumeIPv6(s *sysctl.Tree) error { return replaceDefault(s, suspended, "0") }

// SuspendIPv6 does so in the namespace.
func (n *Namespace) SuspendIPv6() error { return withParameters(n, SuspendIPv6) }

// ResumeIPv6 does so in the namespace.
func (n *Namespace) ResumeIPv6() error { return withParameters(n, ResumeIPv6) }

func replaceDefault(s *sysctl.Tree, before, after string) error {
	key := disableOf(NewInterfaces)
	now, err := s.Get(key)
	if err == nil && now == before {
		err = s.Set(key, after)
	}
	if err = files.UnlessMissing(err); err != nil {
		return fmt.Errorf("IPv6 of new interfaces: %w", err)
	}
	return nil
}

// SetParameter sets a parameter of the namespace.
func (n *Namespace) SetParameter(path, value string) error {
	return withParameters(n, func(s *sysctl.Tree) error { return s.Set(path, value) })
}

// Parameter returns a parameter of the namespace.
func (n *Namespace) Parameter(path string) (value string, err error) {
	err = withParameters(n, func(s *sysctl.Tree) (err error) {
		value, err = s.Get(path)
		return err
	})
	return value, err
}

// withParameters calls f in a namespace, with its parameters.
func withParameters(n *Namespace, f func(s *sysctl.Tree) error) error {
	return n.Do(func() error {
		var s sysctl.Tree
		return f(&s)
	})
}

// setExisting sets a parameter that may not exist.
func setExisting(s *sysctl.Tree, key, value string) error {
	return files.UnlessMissing(s.Set(key, value))
}
