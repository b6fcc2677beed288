// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"errors"
	"fmt"

	"github.com/allocnet/allocnet/state"
)

// refuseSharedNames refuses an attachment that CNI plugins would take for one of another allocation: they name chains and
// devices after network and container ID in one word, so network "vlan1" of "15" and network "vlan11" of "5" would share them.
// An allocation whose record cannot be read may have such an attachment.
func (p *Plan) refuseSharedNames(read func(id string) (state.Record, error)) error {
	for _, added := range p.Added {
		a := added.Attachment
		word := a.Network + a.ContainerID
		for i := 1; i < len(word); i++ {
			if i == len(a.Network) || state.ValidateContainerID(word[i:]) != nil {
				continue
			}
			if err := refuseNamed(read, a, word[:i], word[i:]); err != nil {
				return err
			}
		}
	}
	return nil
}

func refuseNamed(read func(id string) (state.Record, error), a *state.Attachment, network, containerID string) error {
	id := state.AllocationOf(containerID)
	record, err := read(id)
	if errors.Is(err, state.ErrNotFound) || state.ValidateID(id) != nil {
		return nil
	}
	if err != nil {
		return err
	}
	for _, other := range record.Attachments {
		if other.Network == network && other.ContainerID == containerID {
			return &RequestError{"allocation", a.ContainerID, fmt.Sprintf("CNI plugins would take its network %q for network %q of allocation %s, as both make the word %q: choose another ID", a.Network, network, id, network+containerID)}
		}
	}
	return nil
}
