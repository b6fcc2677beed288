// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"errors"
	"fmt"
	"strings"

	"github.com/allocnet/allocnet/cniconf"
)

// masters reports networks on links that the host does not have.
func masters(r *Report, networks []network, has cniconf.HasLink) {
	for _, n := range networks {
		err := n.CheckMasters(has)
		var missing *cniconf.MissingMasterError
		switch {
		case errors.As(err, &missing):
			r.addError(n.Path, fmt.Sprintf("network %q: the host has no link %s", n.Name, strings.Join(missing.Missing, ", ")),
				"create the link, or correct \"master\"")
		case err != nil:
			r.addWarning(n.Path, "links are not examined: "+err.Error(), "run allocnet doctor again")
		}
	}
}
