// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package traffic

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/isolation"
)

const testLong = `Tell whether a new flow passes, and which rule decides. FROM and TO are the ID of an
allocation, an address, or host. ID@INTERFACE is another attachment than the first. The
protocol is tcp unless it is given: udp, sctp, or icmp, which has no port (TO/icmp). An IPv6
address before a port is in brackets.

With the port of a published port, an address of this host, or host, is where the port leads
to. An address on another host is that of an attachment if the agent has learned so; what the
filters of that host drop is not examined.

The last line tells what the other filters of this host do with its first packet: those of
iptables and nftables, such as Docker's, firewalld's and the operator's, for what comes to the
host (prerouting), and what it forwards, gets and sends. A rule with a match that is not read,
such as a set or a mark, may drop it or may not: then that is not known. An address elsewhere
is behind the interface to which the host routes it. What an allocation sends to itself stays
inside: the host does not see it.

The exit code is 0 if it is allowed, and 4 if it is denied, or if another filter drops it for
certain.`

type testedJSON struct {
	Allowed bool   `json:"allowed"`
	From    string `json:"from"`
	To      string `json:"to"`
	// Port has the protocol.
	Port string `json:"port"`
	// Published is whether the port is a published one, and To where it leads to.
	Published bool `json:"published,omitempty"`
	// Rule is which of those of docs/isolation.md decides. 0 if it is allowed: none, since the host does not see it.
	Rule int `json:"rule"`
	// By is the rule of the file, and Line its line. Empty: none decides.
	By   string `json:"by,omitempty"`
	Line int    `json:"line,omitempty"`
	// Reason is why.
	Reason string `json:"reason"`
	// Filters is what the other filters of the host do with it.
	Filters filteredJSON `json:"filters"`
}

func newTest(s *cli.Settings, recordedIDs cli.Complete, filters func(context.Context) hostFilters) *cobra.Command {
	var rules rulesFlag
	cmd := &cobra.Command{
		Use:   "test FROM TO:PORT[/PROTOCOL]",
		Short: "Tell whether a flow passes, and which rule decides",
		Long:  testLong,
		Example: `  allocnet policy test host web-1:80
  allocnet policy test web-1 192.0.2.7:443/tcp
  allocnet policy test web-1@net1 host:53/udp
  allocnet policy test 192.0.2.7 web-1/icmp`,
		Args:              cli.WantArguments(2, 2, "FROM and TO:PORT, as in web-1 db-1:5432/tcp"),
		ValidArgsFunction: s.Completion(flowEnds(recordedIDs)),
		RunE:              func(cmd *cobra.Command, args []string) error { return testPolicy(cmd, s, &rules, filters, args) },
	}
	rules.register(cmd)
	return cmd
}

func testPolicy(cmd *cobra.Command, s *cli.Settings, rules *rulesFlag, filters func(context.Context) hostFilters, args []string) error {
	to, ports, err := splitPort(args[1])
	if err != nil {
		return cli.Usage(err)
	}
	t, engine, err := readTraffic(cmd, s, rules)
	if err != nil {
		return err
	}
	q := flowQuestion{traffic: t, resolve: engine.Resolve, own: hostAddresses}
	f, asked, err := q.flow(args[0], to, ports)
	if err != nil {
		return err
	}
	d, filtered := isolation.Decision{Allowed: true, Text: "it stays inside of the allocation: the host does not see it"}, filteredJSON{Verdict: filtersPass}
	if !t.staysInside(f) {
		d = isolation.Decide(t.rules, t.members, f)
		if !t.passesBeside(f) {
			crossing := t.crossing(f)
			crossing.Asked = asked
			filtered = filteredBy(filters(cmd.Context()).FateOf(crossing))
		}
	}
	tested := testedJSON{
		Allowed: d.Allowed, From: t.name(f.From), To: t.name(f.To), Port: isolation.Ports{Protocol: f.Protocol, First: f.Port, Last: f.Port}.String(), Published: f.Published,
		Rule: d.Rule, By: d.By, Line: d.Line, Reason: d.Text, Filters: filtered,
	}
	if err := s.Output(cmd.OutOrStdout(), tested, tested.print); err != nil {
		return err
	}
	if !d.Allowed || tested.Filters.Verdict == filtersDrop {
		return &cli.ExitError{Code: cli.ExitDenied}
	}
	return nil
}

func (t testedJSON) print(w io.Writer, on cli.Terminal) error {
	by := fmt.Sprintf("rule %d", t.Rule)
	if t.Allowed && t.Rule == 0 {
		by = "inside"
	}
	table := cli.Table{{verdict(t.Allowed), cli.Text(fmt.Sprintf("%s to %s, %s", t.From, t.To, t.Port))}, {cli.Text(by), cli.Text(t.Reason)}, {cli.Text("filters"), cli.Text(t.Filters.String())}}
	return table.Print(w, on.Colours)
}

// splitPort reads TO:PORT/PROTOCOL, TO:PORT, or TO/icmp.
func splitPort(text string) (to string, p isolation.Ports, err error) {
	wrong := fmt.Errorf("TO %q: want a port, as in db-1:5432/tcp, [fd00::5]:53/udp or db-1/icmp", text)
	to, protocol, given := strings.Cut(text, "/")
	if protocol == "icmp" {
		return strings.Trim(to, "[]"), isolation.Ports{Protocol: protocol}, nil
	}
	if !given {
		protocol = "tcp"
	}
	to, port, err := net.SplitHostPort(to)
	if err != nil || to == "" {
		return "", p, wrong
	}
	p, err = isolation.ParsePorts(port + "/" + protocol)
	if err != nil || p.First != p.Last {
		return "", p, wrong
	}
	return to, p, nil
}

// flowEnds completes FROM, and TO up to its port.
func flowEnds(recordedIDs cli.Complete) cli.Complete {
	return func(s *cli.Settings, cmd *cobra.Command, args []string, word string) []string {
		if len(args) > 1 {
			return nil
		}
		ends := append([]string{"host"}, recordedIDs(s, cmd, args, word)...)
		if len(args) == 1 {
			for i := range ends {
				ends[i] += ":"
			}
		}
		return ends
	}
}

// attachment returns which one of this host an end is; without an ID none.
func (t *traffic) attachment(e isolation.End) (id, iface string) {
	for _, a := range t.allocations {
		for _, n := range a.Attachments {
			if m := t.member(a.ID, n); m != nil && m.Link == e.Link && slices.Contains(m.Addresses, e.Address) && !e.Host {
				return a.ID, n.Interface
			}
		}
	}
	return "", ""
}

// staysInside tells whether a flow is from an allocation to itself. To a published port of its own it goes by the host.
func (t *traffic) staysInside(f isolation.Flow) bool {
	from, _ := t.attachment(f.From)
	to, _ := t.attachment(f.To)
	return from != "" && from == to && !f.Published
}

// name is what people call an end.
func (t *traffic) name(e isolation.End) string {
	if id, iface := t.attachment(e); id != "" {
		return fmt.Sprintf("%s@%s (%s)", id, iface, e.Address)
	}
	if m := e.Member(t.members); m != nil && m.Host != "" {
		return fmt.Sprintf("%s on %s (%s)", who(m), m.Host, e.Address)
	}
	return e.String()
}

// who tells whose an attachment on another host is, as far as it is known.
func who(m *isolation.Member) string {
	if m.Job == "" {
		return "an attachment to " + m.Network
	}
	return fmt.Sprintf("job %s of %s", m.Job, cmp.Or(m.Namespace, "an unknown namespace"))
}
