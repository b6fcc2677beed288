// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import "github.com/allocnet/allocnet/policy"

// readOptions reads the options of the networks, and refuses chains that cannot work.
func (p *plan) readOptions() error {
	for i := range p.added {
		added := &p.added[i]
		if err := checkChain(added.network.Name, added.network.List); err != nil {
			return err
		}
		options, err := policy.Of(added.network)
		if err != nil {
			return err
		}
		added.executor = options.Executor
		added.sourceRouting = options.Routing == policy.SourceRouting
		if options.AcceptRA || !setsAcceptRA(added.network.List) {
			added.attachment.AcceptRA = &options.AcceptRA
		}
	}
	return nil
}
