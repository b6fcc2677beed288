// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// Overview is a pool as the store has it.
type Overview struct {
	// Content is the configuration. Nil: no host has used the pool.
	Content   *ipam.PoolContent
	Blocks    []ipam.BlockContent
	Addresses []ipam.AddressContent
	// Unknown are entries that are not understood. What they govern counts as used.
	Unknown []UnknownEntry
}

// UnknownEntry is an entry that is not understood.
type UnknownEntry struct {
	Path string
	Err  error
}

// answerTimeout is for how long Show waits for the first answer of the store.
const answerTimeout = 3 * time.Second

// Show returns the whole pool. It changes nothing. Of the configuration only the name is used:
// the pool is read as the store has it.
func (p *Pool) Show(ctx context.Context) (Overview, error) {
	store, _, err := p.o.Open()
	if err != nil {
		return Overview{}, err
	}
	o := Overview{}
	first, stop := context.WithTimeoutCause(ctx, answerTimeout, fmt.Errorf("no answer within %s: %w", answerTimeout, context.DeadlineExceeded))
	defer stop()
	entry, err := store.Get(first, ipam.PoolPath(p.o.Config.Pool))
	if errors.Is(err, ipam.ErrNotFound) {
		return o, nil
	}
	if err != nil {
		return o, err
	}
	content, err := ipam.DecodePool(entry.Content, p.o.Config.Pool)
	if err != nil {
		return o, fmt.Errorf("%s: %w", entry.Path, err)
	}
	o.Content = &content
	config, err := content.Config()
	if err != nil {
		return o, err
	}
	for prefix, add := range map[string]func(*ipam.Config, ipam.Entry) error{
		ipam.BlocksPrefix(p.o.Config.Pool): o.addBlock, ipam.AddressesPrefix(p.o.Config.Pool): o.addAddress,
	} {
		err := each(ctx, store, prefix, func(e ipam.Entry) {
			if err := add(config, e); err != nil {
				o.Unknown = append(o.Unknown, UnknownEntry{e.Path, err})
			}
		})
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

func each(ctx context.Context, store ipam.Store, prefix string, do func(ipam.Entry)) error {
	listing, err := store.List(ctx, prefix, 0)
	if err != nil {
		return err
	}
	for _, listed := range listing.Entries {
		entry, err := store.Get(ctx, listed.Path)
		if errors.Is(err, ipam.ErrNotFound) {
			continue // removed since
		}
		if err != nil {
			return err
		}
		do(entry)
	}
	return nil
}

func (o *Overview) addBlock(c *ipam.Config, e ipam.Entry) error {
	content, err := ipam.DecodeBlock(e.Content, c)
	if err == nil && ipam.BlockPath(c.Pool, content.Block) != e.Path {
		err = fmt.Errorf("the content is that of the block %s", content.Block)
	}
	if err == nil {
		o.Blocks = append(o.Blocks, content)
	}
	return err
}

func (o *Overview) addAddress(c *ipam.Config, e ipam.Entry) error {
	content, err := ipam.DecodeAddress(e.Content, c)
	if err == nil && ipam.AddressPath(c.Pool, content.Address) != e.Path {
		err = fmt.Errorf("the content is that of the address %s", content.Address)
	}
	if err == nil {
		o.Addresses = append(o.Addresses, content)
	}
	return err
}
