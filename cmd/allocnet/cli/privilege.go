// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// RequireRoot is an error for a user who cannot change networks: a plugin's own error
// would come late, and not name the cause.
func RequireRoot() error {
	if os.Geteuid() == 0 {
		return nil
	}
	const needed = 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_SYS_ADMIN
	var held [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &held[0]); err == nil && held[0].Effective&needed == needed {
		return nil
	}
	return Usage(errors.New("this command changes the networks of the host: run as root"))
}
