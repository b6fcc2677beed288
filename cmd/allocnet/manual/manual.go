// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package manual writes the man pages: those of the commands from their help, the others from docs/.
package manual

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/allocnet/allocnet/docs"
	"github.com/allocnet/allocnet/internal/manpage"
	"github.com/allocnet/allocnet/internal/version"
	"github.com/allocnet/allocnet/isolation"
)

type pages struct {
	dir  string
	date time.Time
}

var fromDocs = []struct {
	name, summary, text string
	section             int
	files               string
	sections            []string
	also                []string
}{
	{
		"allocnet-agent.hcl", "configuration of the allocnet agent", docs.Agent, 5, "/etc/allocnet.d/*.hcl",
		[]string{"Configuration", "Nomad", "Delegating calls of allocnet-cni"}, []string{"allocnet-agent(1)", "allocnet-cni(8)"},
	},
	{
		"allocnet-isolation.hcl", "rules of traffic between allocations", docs.Isolation, 5, isolation.DefaultFile,
		[]string{"What to write", "Rules", "Which one decides", "Senders", "When it holds", "What cannot be isolated"}, []string{"allocnet-policy(1)"},
	},
	{
		"allocnet-cni", "CNI plugin with which a Nomad job selects networks", docs.Nomad, 8, "/opt/cni/bin/allocnet-cni",
		[]string{"Install on a client", "Select networks in a job", "Configure the plugin", "Troubleshooting"}, []string{"allocnet(1)", "allocnet-conf-generate(1)", "allocnet-agent.hcl(5)"},
	},
	{
		"allocnet-ipam", "CNI IPAM plugin with addresses that are unique in a cluster", docs.IPAM, 8, "/opt/cni/bin/allocnet-ipam",
		[]string{"Configuration", "Requests", "Errors"}, []string{"allocnet(1)", "allocnet-agent.hcl(5)"},
	},
}

// Write writes the pages of all commands and those of docs/, with a date, into the directories man1, man5
// and man8 of a directory.
func Write(root *cobra.Command, dir string, date time.Time) error {
	m := pages{dir, date}
	if err := m.commands(root); err != nil {
		return err
	}
	for _, d := range fromDocs {
		p := m.page(d.name, d.section, d.summary)
		p.Section("Synopsis")
		p.Text(d.files)
		for _, title := range d.sections {
			text, err := manpage.Extract(d.text, title)
			if err != nil {
				return fmt.Errorf("%s(%d): %w", d.name, d.section, err)
			}
			p.Markdown(text)
		}
		p.Section("See also")
		p.Text(strings.Join(d.also, ", "))
		if err := m.save(d.name, d.section, p); err != nil {
			return err
		}
	}
	return nil
}

func (m pages) page(name string, section int, summary string) *manpage.Page {
	return manpage.New(name, section, summary, "allocnet "+version.Version, m.date)
}

func (m pages) save(name string, section int, p *manpage.Page) error {
	dir := filepath.Join(m.dir, fmt.Sprintf("man%d", section))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s.%d", name, section)), p.Bytes(), 0o644)
}

func (m pages) commands(cmd *cobra.Command) error {
	if err := m.save(PageName(cmd), 1, m.command(cmd)); err != nil {
		return err
	}
	for _, child := range Visible(cmd) {
		if err := m.commands(child); err != nil {
			return err
		}
	}
	return nil
}

// Visible returns the commands below one that have pages.
func Visible(cmd *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(cmd.Commands()), func(c *cobra.Command) bool {
		return !c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand()
	})
}

// PageName is the name of a command's page.
func PageName(cmd *cobra.Command) string {
	return strings.ReplaceAll(cmd.CommandPath(), " ", "-")
}

func (m pages) command(cmd *cobra.Command) *manpage.Page {
	p := m.page(PageName(cmd), 1, cmd.Short)
	p.Section("Synopsis")
	p.Text(cmd.UseLine())
	p.Section("Description")
	p.Text(cmp.Or(cmd.Long, cmd.Short+"."))
	if children := Visible(cmd); len(children) > 0 {
		p.Section("Commands")
		for _, child := range children {
			p.Item(PageName(child)+"(1)", child.Short)
		}
	}
	options(p, "Options", cmd.NonInheritedFlags())
	options(p, "Global options", cmd.InheritedFlags())
	if cmd.Example != "" {
		p.Section("Examples")
		p.Literal(cmd.Example)
	}
	p.Section("See also")
	p.Text(strings.Join(seeAlso(cmd), ", "))
	return p
}

func options(p *manpage.Page, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	p.Section(title)
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden {
			return
		}
		value, text := pflag.UnquoteUsage(flag)
		term := strings.TrimSpace("--" + flag.Name + " " + value)
		if without := flag.NoOptDefVal; without != "" && without != "true" {
			term = "--" + flag.Name + "[=" + value + "]"
			text += " (without a value: " + without + ")"
		}
		if flag.Shorthand != "" {
			term = "-" + flag.Shorthand + ", " + term
		}
		if !slices.Contains([]string{"", "false", "0", "0s", "[]"}, flag.DefValue) {
			text += " (default " + flag.DefValue + ")"
		}
		p.Item(term, text)
	})
}

// seeAlso lists the command above, and the pages of other sections.
func seeAlso(cmd *cobra.Command) []string {
	var pages []string
	if cmd.HasParent() {
		pages = append(pages, PageName(cmd.Parent())+"(1)")
	}
	return append(pages, "allocnet-agent.hcl(5)", "allocnet-cni(8)")
}
