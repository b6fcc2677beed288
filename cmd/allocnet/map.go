// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/cmd/allocnet/cluster"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/hostmap"
)

const mapLong = `Draw the host: its networks with their bridges or masters and the use of their pools, and
its allocations with job, group, interfaces, addresses, ports, phase, and the task that
attached a network. A line leads from each network to the interfaces that are attached to it.

What differs from the records is marked with "!": a bridge or master that is missing or
down, and inside of namespaces interfaces that are missing or down, and addresses and
default routes that are gone. The command runs no plugin and takes no lock; "allocnet check"
also examines what plugins made on the host.

--format svg, dot (for Graphviz) and json print the same for other programs. On a terminal
the text is made to fit; a pipe gets complete IDs. NO_COLOR turns colours off. In a locale
without UTF-8 the lines are drawn in ASCII.

With --denied it also has the flows that isolation denied, as the agent of this host was told
of them ("allocnet events"), if one of their ends is drawn: as lines at the end, and with
--format dot as edges.

With a filter, only the networks that the selected attachments use are drawn, and the one of
the flag --network. The first characters of an ID are enough for --allocation.`

var mapFormats = []string{"text", "svg", "dot", "json"}

type mapFlags struct {
	filter
	cli.Display
	allocation, format string
	denied             bool
	socket             cli.AgentSocket
}

func newMap(s *cli.Settings) *cobra.Command {
	var f mapFlags
	cmd := &cobra.Command{
		Use:   "map",
		Short: "Draw the host: networks, bridges, pools, allocations",
		Long:  mapLong,
		Example: `  allocnet map
  allocnet map --network storage
  allocnet map --format svg > map.svg
  allocnet map --allocation web-1 --json`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, s) },
	}
	f.register(cmd.Flags())
	f.Register(cmd, "IDs")
	cmd.Flags().StringVar(&f.allocation, "allocation", "", "only this allocation; the first characters of its ID are enough (default: all)")
	cmd.Flags().BoolVar(&f.denied, "denied", false, "also draw flows that isolation denied, which the agent knows")
	f.socket.Register(cmd)
	cmd.Flags().StringVar(&f.format, "format", mapFormats[0], "form of the map: "+strings.Join(mapFormats, ", "))
	_ = cmd.RegisterFlagCompletionFunc("allocation", s.Completion(recordedIDs)) // fails only for a flag that does not exist
	return cmd
}

func (f *mapFlags) run(cmd *cobra.Command, s *cli.Settings) error {
	if err := f.validate(); err != nil {
		return err
	}
	if !slices.Contains(mapFormats, f.format) {
		return cli.Usage(fmt.Errorf("--format %q: want %s", f.format, strings.Join(mapFormats, ", ")))
	}
	if f.format != mapFormats[0] && (s.JSON && f.format != "json" || f.Quiet || f.Template != "") {
		return cli.Usage(fmt.Errorf("--format %s and one of --json, --quiet and --template: want one of them", f.format))
	}
	engine, err := s.Reader(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if f.allocation != "" {
		if f.allocation, err = engine.Resolve(f.allocation); err != nil {
			return err
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	h := hostmap.Host{Name: host, Engine: engine, Shared: cluster.PoolUsage, Select: f.selected, ShowsUnused: f.showsUnused,
		Catalog: func() (*cniconf.Catalog, error) { return cniconf.Load(s.ConfDirs()...) },
	}
	if f.denied {
		h.Denied = f.deniedFlows
	}
	return f.Show(cmd, s.JSON || f.format == "json", func(ctx context.Context) (cli.View, error) {
		m, err := hostmap.Read(ctx, h)
		return f.view(m), err
	})
}

func (f *mapFlags) deniedFlows(ctx context.Context) ([]hook.DeniedFlow, error) {
	all, err := f.socket.Client().Denied(ctx)
	if err != nil {
		return nil, err
	}
	if all.Deaf != "" {
		err = fmt.Errorf("the agent is not told of them: %s", all.Deaf)
	}
	return all.Flows, err
}

// selected returns an allocation with the attachments that are selected; nil for one
// without any.
func (f *mapFlags) selected(a *hook.Allocation) *hook.Allocation {
	if f.allocation != "" && a.ID != f.allocation {
		return nil
	}
	return f.filter.selected(a)
}

func (f *mapFlags) showsUnused(network string) bool {
	return network == f.network || f.filter == filter{} && f.allocation == ""
}

func (f *mapFlags) view(m *hostmap.Map) cli.View {
	v := cli.View{JSON: m}
	for _, a := range m.Allocations {
		v.Names = append(v.Names, a.ID)
	}
	v.Table = func(w io.Writer, t cli.Terminal) error {
		_, err := io.WriteString(w, f.draw(m, t, v.Names))
		return err
	}
	return v
}

func (f *mapFlags) draw(m *hostmap.Map, t cli.Terminal, ids []string) string {
	switch f.format {
	case "svg":
		return hostmap.SVG(m)
	case "dot":
		return hostmap.DOT(m)
	}
	o := hostmap.TextOptions{Columns: t.Columns, Colours: t.Colours, ASCII: !hasUTF8()}
	if t.Columns > 0 {
		o.IDs = shortIDs(ids)
	}
	return hostmap.Text(m, o)
}

// hasUTF8 tells whether the locale has characters for lines. Of the variables, the first that
// is set counts.
func hasUTF8() bool {
	locale := strings.ToUpper(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	return strings.Contains(locale, "UTF-8") || strings.Contains(locale, "UTF8")
}
