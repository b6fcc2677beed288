// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadclient

import (
	"errors"
	"fmt"
	"strings"

	"github.com/allocnet/allocnet/nomad"
)

// admit returns the error with which the servers of a version refuse a group.
func admit(version nomad.Version, g Group) error {
	if g.Connect {
		if err := admitConnect(version, g); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	for _, network := range g.Networks {
		if network.Args != nil && !version.Has(nomad.JobArguments) {
			return errors.New(`job refused: Blocks of type "cni" are not expected here`)
		}
		for key, value := range network.Args {
			// v2.0.5 structs.go:7355-7379. Nothing else is checked.
			if seen[key] || strings.Contains(key+value, ";") {
				return fmt.Errorf("CNI argument %q is set twice, or has a ';'", key)
			}
			seen[key] = true
		}
	}
	return nil
}

func admitConnect(version nomad.Version, g Group) error {
	if len(g.Networks) != 1 {
		return fmt.Errorf("job refused: Consul Connect sidecars require exactly 1 network, found %d", len(g.Networks))
	}
	if !version.Has(ConnectOnCNI) {
		return fmt.Errorf("job refused: Consul Connect sidecar requires bridge network, found %q", g.Networks[0].Mode)
	}
	return nil
}
