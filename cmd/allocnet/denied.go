// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
)

func (f *eventsFlags) runDenied(cmd *cobra.Command, s *cli.Settings) error {
	if f.follow || f.After > 0 {
		return cli.Usage(errors.New("--denied and --follow or --after: want one of them: flows have no index"))
	}
	all, err := f.socket.Client().Denied(cmd.Context())
	if err != nil {
		return err
	}
	flows := slices.DeleteFunc(all.Flows, func(d api.DeniedFlow) bool { return !f.selects(d) })
	if err := printDenied(cmd.OutOrStdout(), flows, s.JSON); err != nil || all.Deaf == "" {
		return err
	}
	return fmt.Errorf("the agent is not told of denied flows: %s", all.Deaf)
}

// selects tells whether one of the ends of a flow is selected, and the flow is not older than what is selected.
func (f *eventsFlags) selects(d api.DeniedFlow) bool {
	return !d.Last.Before(f.Since) && slices.ContainsFunc([]allocation.FlowEnd{d.From, d.To}, func(e allocation.FlowEnd) bool {
		return f.SelectsAllocation(e.Allocation) && (f.Network == "" || e.Network == f.Network)
	})
}

func printDenied(w io.Writer, flows []api.DeniedFlow, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(w)
		for _, d := range flows {
			if err := encoder.Encode(d); err != nil {
				return err
			}
		}
		return nil
	}
	t := cli.NewTable("LAST", "COUNT", "FROM", "TO", "PORT", "REASON")
	for _, d := range flows {
		t.Add(d.Last.UTC().Format(time.RFC3339), fmt.Sprint(d.Count), d.From.String(), d.To.String(), cli.OrDash(d.Service()), d.Reason)
	}
	return t.Print(w, cli.TerminalOf(w).Colours)
}
