// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/ipam"
)

const (
	nodeFile = "node.json"
	// mostNonces are the host's own that it remembers: the store may be restored to one.
	mostNonces = 64
	// registerAttempts are made against others that change the entry at the same time.
	registerAttempts = 3
)

// node is what this host wrote to its own entry below nodes/.
type node struct {
	Instance  string `json:"instance"`
	MachineID string `json:"machineID"`
	// Boot is that of the last nonce.
	Boot string `json:"boot"`
	// Nonces are this host's own, the last one last.
	Nonces []string `json:"nonces"`
	// Registered is when the last nonce was found in the store, in the boot that it is of; of
	// an instance without a nonce, when it was found to need none.
	Registered moment `json:"registered"`
	// Twin: the store had a nonce of another machine.
	Twin bool `json:"twin"`
	// Confirmed is when the last nonce was first found in the store.
	Confirmed confirmed `json:"confirmed,omitzero"`
}

// confirmed is when a nonce was found in the store.
type confirmed struct {
	Nonce string `json:"nonce"`
	At    moment `json:"at"`
}

// readNode reads what the host wrote. Another instance begins anew.
func (l *Leases) readNode(instance string) (*node, error) {
	n := &node{}
	if err := readJSON(l.node, nodeFile, n); err != nil {
		return nil, fmt.Errorf("%s: %w: no address is given out; restore the file, or, if no other machine is a copy of this one, remove it and delete the store's %s",
			l.node.pathOf(nodeFile), err, ipam.NodePath(instance))
	}
	if n.Instance != instance {
		n = &node{Instance: instance}
	}
	return n, nil
}

// closed returns the error of a machine that is not the one that wrote the file, or that found
// another in its place.
func (n *node) closed(self ipam.Host) error {
	why := ""
	switch {
	case n.MachineID != "" && n.MachineID != self.MachineID:
		why = fmt.Sprintf("the state directory was used by the machine %s, and this is %s", n.MachineID, self.MachineID)
	case n.Twin:
		why = "the store has another machine in this one's place"
	default:
		return nil
	}
	return fmt.Errorf("%w: instance %s: %s: on the clone, remove the files instance, node.json and pools from the state directory's ipam; then delete the store's %s",
		ipam.ErrTwin, n.Instance, why, ipam.NodePath(n.Instance))
}

func (n *node) last() string {
	if len(n.Nonces) == 0 {
		return ""
	}
	return n.Nonces[len(n.Nonces)-1]
}

// registration makes sure that the store's entry of the host is its own, or that there is none.
type registration struct {
	*session
	node *node
	path string
	// mayWait: an entry is not needed as long as the instance has not left its first boot.
	mayWait bool
}

// register finds clones of this host: each machine writes a nonce of its own in each boot, and
// one that finds a nonce that it did not write is not alone. In the boot in which the instance
// was made, a machine waits until it finds another's: a copy of its disk starts in another boot,
// and writes first.
func (s *session) register(ctx context.Context) error { return s.registerAs(ctx, true) }

func (s *session) registerAs(ctx context.Context, mayWait bool) error {
	unlock, err := s.node.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	r := &registration{session: s, path: ipam.NodePath(s.host.Instance), mayWait: mayWait}
	if r.node, err = s.readNode(s.host.Instance); err != nil {
		return err
	}
	if r.node.MachineID != "" && r.node.MachineID != s.host.MachineID {
		return r.node.closed(s.host)
	}
	for range registerAttempts {
		if err = r.attempt(ctx); !errors.Is(err, ipam.ErrConflict) {
			break
		}
	}
	s.isNew = err != nil || s.now.within(settle, r.node.Registered)
	s.registered = len(r.node.Nonces) > 0
	s.unopposed = err == nil && !s.now.within(settle, r.node.Confirmed.At)
	return err
}

func (r *registration) attempt(ctx context.Context) error {
	entry, err := r.store.Get(ctx, r.path)
	if errors.Is(err, ipam.ErrNotFound) {
		return r.missing(ctx)
	}
	if err != nil {
		return err
	}
	content, err := ipam.DecodeNode(entry.Content)
	own := err == nil && (content.Nonce == "" || slices.Contains(r.node.Nonces, content.Nonce))
	switch {
	case own && content.Contested:
		return r.refuse()
	case !own || r.node.Twin:
		return r.object(ctx, content, entry.Index)
	case content.Nonce == r.node.last() && r.node.Boot == r.host.Boot && content.Challenger == "":
		return r.confirm()
	}
	return r.renew(func(data []byte) error {
		_, err := r.store.Update(ctx, r.path, data, entry.Index)
		return err
	})
}

// missing makes the entry, unless there has never been one and none is needed.
func (r *registration) missing(ctx context.Context) error {
	self, err := r.self()
	if err != nil {
		return err
	}
	born := self.Born && self.Instance == r.host.Instance
	switch {
	case r.node.Twin || len(r.node.Nonces) > 0 || !born:
		return r.create(ctx)
	case !r.mayWait:
		r.node.Registered = moment{} // another machine has time to say so from now on
		return r.create(ctx)
	}
	if r.node.Boot != r.host.Boot {
		r.node.MachineID, r.node.Boot, r.node.Registered = r.host.MachineID, r.host.Boot, moment{}
	}
	return r.confirm()
}

// create makes the missing entry. That is how the state of twins ends: an operator has removed
// the entry when there was one machine left.
func (r *registration) create(ctx context.Context) error {
	return r.renew(func(data []byte) error {
		_, err := r.store.Create(ctx, r.path, data)
		return err
	})
}

// renew writes a new nonce, which is on disk before, so that a late write is known.
func (r *registration) renew(write func(data []byte) error) error {
	if err := r.remember(r.random()); err != nil {
		return err
	}
	if err := write(ipam.Encode(ipam.NodeContent{Host: r.host, Nonce: r.node.last()})); err != nil {
		return err
	}
	return r.confirm()
}

func (r *registration) remember(nonce string) error {
	if r.node.Boot != r.host.Boot {
		r.node.Registered = moment{}
	}
	r.node.MachineID, r.node.Boot = r.host.MachineID, r.host.Boot
	r.node.Nonces = append(r.node.Nonces, nonce)
	r.node.Nonces = r.node.Nonces[max(0, len(r.node.Nonces)-mostNonces):]
	return r.save()
}

func (r *registration) save() error { return writeJSON(r.session.node, nodeFile, r.node) }

// confirm records that this machine has its place, and since when in this boot.
func (r *registration) confirm() error {
	isKnown := r.node.Confirmed.Nonce == r.node.last()
	if !r.node.Registered.isZero() && !r.node.Twin && isKnown {
		return nil
	}
	if r.node.Twin = false; r.node.Registered.isZero() {
		r.node.Registered = r.now
	}
	if !isKnown {
		r.node.Confirmed = confirmed{r.node.last(), r.now}
	}
	return r.save()
}

// object tells the other machine that this one had the place before, in the same boot, so that
// neither gives out addresses. One that only comes now is refused itself.
func (r *registration) object(ctx context.Context, other ipam.NodeContent, index uint64) error {
	inPlace := r.node.Boot == r.host.Boot && !r.node.Registered.isZero()
	if !inPlace || other.Contested {
		return r.refuse()
	}
	nonce := r.random()
	if err := r.remember(nonce); err != nil {
		return err
	}
	content := ipam.NodeContent{Host: r.host, Nonce: nonce, Contested: true}
	if _, err := r.store.Update(ctx, r.path, ipam.Encode(content), index); err != nil {
		return err
	}
	return r.refuse()
}

func (r *registration) refuse() error {
	was := r.node.Twin
	r.node.Twin = true
	err := r.node.closed(r.host)
	if was {
		return err
	}
	return errors.Join(r.save(), err)
}
