// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/allocnet/allocnet/ui/uitest"
)

// pages are those that have a link, by name.
func (c *command) pages() map[string]string {
	id := uitest.Allocations(3, time.Now())[2].ID
	return map[string]string{
		"overview": "", "map": "map", "picture": "map.svg", "allocations": "allocations", "allocation": "allocations/" + id, "networks": "pools", "cluster": "cluster", "events": "events", "problems": "problems",
		"missing": "nothing",
	}
}

// TestPages: each page fits a desktop and a phone in both colour schemes, logs no error, reads
// nothing from another host, and axe-core finds no fault.
func TestPages(t *testing.T) {
	agent := uitest.Start(t)
	agent.Fill(12, time.Now())
	c := run(t, agent.Socket)
	b := open(t)
	base := b.enter(c)
	for name, path := range c.pages() {
		for _, s := range []size{desktop, phone} {
			for _, scheme := range []string{"light", "dark"} {
				t.Run(strings.Join([]string{name, s.name, scheme}, " "), func(t *testing.T) {
					b := b.within(t)
					b.resize(s, scheme)
					b.do(chromedp.Navigate(base + path))
					if name != "picture" { // which is as wide as it is
						b.requireFit(s)
						b.requireAccessible()
					}
					b.shoot("ui-" + name + "-" + s.name + "-" + scheme)
					if name == "missing" {
						b.forget("404")
					}
					b.requireQuiet()
				})
			}
		}
	}
}
