// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"cmp"
	"fmt"
	"io"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/internal/texts"
)

// reservationJSON is an address and the job that it is kept for, none after unreserve, as
// --json prints it.
type reservationJSON struct {
	Pool    string     `json:"pool"`
	Address netip.Addr `json:"address"`
	Job     *ipam.Job  `json:"job,omitempty"`
}

func newIPAMReserve(s *cli.Settings) *cobra.Command {
	var job ipam.Job
	cmd := &cobra.Command{
		Use:   "reserve POOL ADDRESS --job JOB",
		Short: "Keep a reserved address for a job",
		Long: `Keep an address of the reserved ranges of a pool for a job, before an allocation has it.
With --group and --key only allocations of that group, or with that key, get it. The key is
what the job passes, or the index of the allocation.`,
		Example:           `  allocnet ipam reserve vlan100 10.91.0.20 --job db --group postgres --key 0`,
		Args:              poolAndAddress,
		ValidArgsFunction: s.CompleteFirst(poolNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if job.Job == "" {
				return cli.Usage(fmt.Errorf("--job is required: the Nomad job that gets the address"))
			}
			return changeReserved(s, cmd, args, &job, "is kept for job "+job.Job, func(p sharedPool, address netip.Addr) error {
				return p.Reserve(cmd.Context(), address, job)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&job.Namespace, "namespace", "default", "Nomad namespace of the job")
	flags.StringVar(&job.Job, "job", "", "Nomad job that gets the address (required)")
	flags.StringVar(&job.Group, "group", "", "group of the job (default: any)")
	flags.StringVar(&job.Key, "key", "", "key of the allocation within its group (default: any)")
	return cmd
}

func newIPAMUnreserve(s *cli.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "unreserve POOL ADDRESS",
		Short: "End that a reserved address is kept for a job",
		Long: `End that an address of the reserved ranges is kept for a job. An address that an
allocation has stays its own until the allocation ends.`,
		Example:           `  allocnet ipam unreserve vlan100 10.91.0.20`,
		Args:              poolAndAddress,
		ValidArgsFunction: s.CompleteFirst(poolNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeReserved(s, cmd, args, nil, "is not kept for a job", func(p sharedPool, address netip.Addr) error {
				return p.Unreserve(cmd.Context(), address)
			})
		},
	}
}

var poolAndAddress = cli.WantArguments(2, 2, "a pool and an address")

// changeReserved changes for whom the pool keeps the reserved address that the arguments name, and prints it.
func changeReserved(s *cli.Settings, cmd *cobra.Command, args []string, job *ipam.Job, outcome string, change func(sharedPool, netip.Addr) error) error {
	configs, _, err := configsOf(s, args)
	if err != nil {
		return err
	}
	address, err := netip.ParseAddr(args[1])
	if err != nil {
		return cli.Usage(fmt.Errorf("address %q: want one such as 10.91.0.20", args[1]))
	}
	if !configs[0].IsReserved(address) {
		return cli.Usage(fmt.Errorf("%s is no reserved address of pool %s: want one of %s", address, args[0], cmp.Or(texts.Join(configs[0].Reserved, ", "), "its key reserved, which it has not")))
	}
	a, err := access(configs[0])
	if err != nil {
		return err
	}
	if err := change(a.pool, address); err != nil {
		return err
	}
	return s.Output(cmd.OutOrStdout(), reservationJSON{args[0], address, job}, func(w io.Writer, _ cli.Terminal) error {
		return cli.PrintLines(w, fmt.Sprintf("%s of pool %s %s", address, args[0], outcome))
	})
}
