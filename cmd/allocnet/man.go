// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/cmd/allocnet/manual"
)

// newMan is for packagers, like cobra's own completion command.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the man pages into a directory",
		Long: `Write the man pages into the directories man1, man5 and man8 of DIR. The pages have
the date of SOURCE_DATE_EPOCH, if it is set.`,
		Example: `  allocnet man /usr/local/share/man`,
		Args:    cli.WantArguments(1, 1, "one directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			date, err := manDate()
			if err != nil {
				return err
			}
			return manual.Write(cmd.Root(), args[0], date)
		},
	}
}

func manDate() (time.Time, error) {
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		return time.Now(), nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, cli.Usage(fmt.Errorf("SOURCE_DATE_EPOCH=%q: want seconds since 1970", epoch))
	}
	return time.Unix(seconds, 0), nil
}
