// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package step

import (
	"fmt"
	"strings"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
)

// forceAddress says why an address is in the way of an ADD although the network has that key, which no plugin gets.
var forceAddress = step{Judge: explainForce}

func explainForce(_ *Work, c Call, err error) error {
	if err == nil || !strings.Contains(err.Error(), "already has an IP address") {
		return err
	}
	for i, p := range c.Recorded.Plugins {
		if len(onrecord.Forced(p)) > 0 {
			return fmt.Errorf("%w: forceAddress removes none, because an operator or other attachments may need it: if nothing does: ip address del ADDRESS dev %s", err, cniconf.Chain(c.Recorded)[i].Link())
		}
	}
	return err
}
