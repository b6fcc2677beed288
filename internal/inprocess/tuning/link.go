// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package tuning

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/netns"
)

// linkSettings are settings of a link, as the tuning plugin keeps them in a file. The zero
// value of a field leaves the link as it is.
type linkSettings struct {
	MAC      string `json:"mac,omitempty"`
	Promisc  *bool  `json:"promisc,omitempty"`
	MTU      int    `json:"mtu,omitempty"`
	Allmulti *bool  `json:"allmulti,omitempty"`
	TxQLen   *int   `json:"txQLen,omitempty"`
}

func (s linkSettings) of(link netlink.Link) linkSettings {
	attrs, existing := link.Attrs(), linkSettings{}
	if s.MAC != "" {
		existing.MAC = attrs.HardwareAddr.String()
	}
	if s.Promisc != nil {
		promisc := attrs.Promisc != 0
		existing.Promisc = &promisc
	}
	if s.MTU != 0 {
		existing.MTU = attrs.MTU
	}
	if s.Allmulti != nil {
		allmulti := attrs.RawFlags&unix.IFF_ALLMULTI != 0
		existing.Allmulti = &allmulti
	}
	if s.TxQLen != nil {
		existing.TxQLen = &attrs.TxQLen
	}
	return existing
}

func (s linkSettings) backup(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o600); err != nil {
		return fmt.Errorf("failed to create backup directory: %w", err)
	}
	data, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("failed to save file %s: %w", path, err)
	}
	return nil
}

func readLinkSettings(path string) (linkSettings, error) {
	var s linkSettings
	data, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(data, &s)
}

// Restore gives a link back what is in files that ADD has saved, in their order. A plugin that has changed nothing has saved none.
func Restore(link netlink.Link, files []string) {
	for _, path := range files {
		if s, err := readLinkSettings(path); err == nil {
			s.restore(link)
		}
	}
}

// apply makes the settings until one fails.
func (s linkSettings) apply(link netlink.Link) error {
	for _, one := range s.each() {
		for _, set := range one.steps(link) {
			if err := set(); err != nil {
				text, _ := json.Marshal(one) // it has texts and numbers
				return fmt.Errorf("set %s of %s: %w", text, link.Attrs().Name, err)
			}
		}
	}
	return nil
}

func (s linkSettings) restore(link netlink.Link) {
	for _, set := range s.steps(link) {
		_ = set() // DEL succeeds all the same
	}
}

func (s linkSettings) steps(link netlink.Link) (steps []func() error) {
	if s.MAC != "" {
		steps = append(steps, func() error { return links.SetMAC(link, s.MAC) })
	}
	if s.Promisc != nil {
		set := netlink.SetPromiscOff
		if *s.Promisc {
			set = netlink.SetPromiscOn
		}
		steps = append(steps, func() error { return set(link) })
	}
	if s.MTU != 0 {
		steps = append(steps, func() error { return netlink.LinkSetMTU(link, s.MTU) })
	}
	if s.Allmulti != nil {
		set := netlink.LinkSetAllmulticastOff
		if *s.Allmulti {
			set = netlink.LinkSetAllmulticastOn
		}
		steps = append(steps, func() error { return set(link) })
	}
	if s.TxQLen != nil {
		steps = append(steps, func() error { return netlink.LinkSetTxQLen(link, *s.TxQLen) })
	}
	return steps
}

func (s linkSettings) compare(link netlink.Link) error {
	name, existing := link.Attrs().Name, s.of(link)
	differs := func(what string, want, got any) error {
		return fmt.Errorf("Error: Tuning configured %s of %s is %v, current value is %v", what, name, want, got) //nolint:staticcheck // the reference plugin's text
	}
	switch {
	case s.MAC != existing.MAC && !netns.SameMAC(s.MAC, existing.MAC):
		return differs("Ethernet", s.MAC, existing.MAC)
	case s.Promisc != nil && *s.Promisc != *existing.Promisc:
		return differs("promisc", *s.Promisc, *existing.Promisc)
	case s.MTU != existing.MTU:
		return differs("MTU", s.MTU, existing.MTU)
	case s.Allmulti != nil && *s.Allmulti != *existing.Allmulti:
		return differs("all-multicast mode", *s.Allmulti, *existing.Allmulti)
	case s.TxQLen != nil && *s.TxQLen != *existing.TxQLen:
		return differs("Transmit Queue Length", *s.TxQLen, *existing.TxQLen)
	}
	return nil
}
