// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/cniconf"
)

func masters(r *Report, networks []network, has cniconf.HasLink) {
	for _, n := range networks {
		err := n.CheckMasters(has)
		var missing *cniconf.MissingMasterError
		switch {
		case errors.As(err, &missing) && len(creators(networks, missing.Missing)) > 0:
			r.addWarning(n.Path, fmt.Sprintf("network %q: the host has no link %s yet", n.Name, strings.Join(missing.Missing, ", ")),
				fmt.Sprintf("create the link, or select %s, which creates it, before network %q", strings.Join(creators(networks, missing.Missing), ", "), n.Name))
		case errors.As(err, &missing):
			r.addError(n.Path, fmt.Sprintf("network %q: the host has no link %s", n.Name, strings.Join(missing.Missing, ", ")),
				"create the link, or correct \"master\"")
		case err != nil:
			r.addUnexamined(n.Path, "links are not examined: "+err.Error(), "run allocnet doctor again")
		}
	}
}

// creators returns the networks that create the bridges; none if a bridge is that of none.
func creators(networks []network, bridges []string) []string {
	var names []string
	for _, bridge := range bridges {
		i := slices.IndexFunc(networks, func(n network) bool { return slices.Contains(n.bridges, bridge) })
		if i < 0 {
			return nil
		}
		names = append(names, networks[i].Name)
	}
	return names
}
