// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"time"

	"github.com/allocnet/allocnet/hook/internal/isolate"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/isolation"
)

// Isolation keeps the attachments of an engine apart, and knows those of other hosts.
type Isolation struct{ env *operation.Env }

// Refresh has the host keep attachments apart by the rules and the levels of networks that files have now, unless it does. Flows
// that are allowed go on. After a mistake in a file what was in force stays, and the error is the mistake.
func (i Isolation) Refresh(ctx context.Context) error { return isolate.Refresh(ctx, i.env) }

// Members returns the attachments of the host as rules of isolation see them, with the levels that their networks have now. It
// changes nothing, and waits for no lock.
func (i Isolation) Members(ctx context.Context) ([]isolation.Member, error) {
	return isolate.Members(ctx, i.env)
}

// Ends returns where the packets of attachments pass the host, as far as it knows. It changes nothing, and waits for no lock. With an error,
// some are missing.
func (i Isolation) Ends(ctx context.Context) ([]HostEnd, error) { return isolate.Ends(ctx, i.env) }

// AddDenied fills in what was dropped of attachments (Attachment.Denied), for which it needs root. Where nothing is isolated there is nothing.
func (i Isolation) AddDenied(ctx context.Context, all ...*Allocation) error {
	return isolate.AddDenied(ctx, i.env, all...)
}

// Remotes returns the attachments on other hosts that are known, as rules of isolation see them.
func (i Isolation) Remotes() ([]isolation.Member, error) { return isolate.Remotes(i.env) }

// Learn has isolation know the attachments of other hosts with addresses of a pool, in place of those that it knew; read is when
// the others were last read to say so. They stay known, also after a reboot, until it is called again. It is safe to repeat.
func (i Isolation) Learn(ctx context.Context, pool string, remotes []isolation.Remote, read time.Time) error {
	return isolate.Learn(ctx, i.env, pool, remotes, read)
}

// Remembered returns what Learn has had known of a pool.
func (i Isolation) Remembered(pool string) ([]isolation.Remote, error) {
	return isolate.Remembered(i.env, pool)
}

// Shares tells whether other hosts are to know the attachments of this one, and it theirs: it has rules of isolation, or networks with
// levels. With an error, which is that of a file, it tells so of what is in force.
func (i Isolation) Shares() (bool, error) { return isolate.Shares(i.env) }

// Learned returns the pools of which attachments on other hosts are known, with the time at which they were known last to be so.
func (i Isolation) Learned() (map[string]time.Time, error) {
	all, err := i.env.Store.Isolation().Learned()
	read := map[string]time.Time{}
	for _, l := range all {
		read[l.Pool] = l.Read
	}
	return read, err
}

// Version returns a text that is another one after each change of a record.
func (i Isolation) Version() (string, error) { return i.env.Store.Version() }
