// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package attach attaches allocations to networks: it refuses what cannot be, records what begins, runs ADD, and has package
// remove undo what fails.
package attach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/isolate"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/hook/internal/remove"
	"github.com/allocnet/allocnet/hook/internal/step"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/resolvconf"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/state"
)

// ErrConflict is a Setup of an allocation that is set up with another request.
var ErrConflict = errdefs.New(errdefs.Conflict, "is set up already with a different request: tear it down first")

// ErrExists is a Setup with Request.Fresh of an allocation that is set up.
var ErrExists = errdefs.New(errdefs.Conflict, "is set up already: tear it down first")

// Setup is Engine.Setup.
func Setup(ctx context.Context, e *operation.Env, r plan.Request) (*allocation.Allocation, error) {
	started := time.Now()
	a, err := attachRequested(ctx, e, r)
	reportAttach(e, r, started, err)
	return a, err
}

// SetupOrExtend is Engine.SetupOrExtend.
func SetupOrExtend(ctx context.Context, e *operation.Env, r plan.Request) (*allocation.Allocation, error) {
	started := time.Now()
	a, err := attachRequested(ctx, e, r)
	if errors.Is(err, ErrConflict) && r.Primary == nil && r.Netns == "" {
		a, err = attachFurther(ctx, e, r)
	}
	reportAttach(e, r, started, err)
	return a, err
}

func attachRequested(ctx context.Context, e *operation.Env, r plan.Request) (*allocation.Allocation, error) {
	o, digest, err := beginToAttach(ctx, e, r, r.Validate)
	if err != nil {
		return nil, err
	}
	defer o.End()
	if existing, err := reuseOrReset(ctx, o, r, digest); existing != nil || err != nil {
		return existing, err
	}
	p, err := newPlan(e, o.Host, r, digest)
	if err != nil {
		return nil, err
	}
	return carryOut(ctx, o, p)
}

// beginToAttach is Begin for a request that is valid, after what has to be done once in a boot. It returns the request's digest, too.
func beginToAttach(ctx context.Context, e *operation.Env, r plan.Request, validate func() error) (o *operation.Operation, digest string, err error) {
	if err := validate(); err != nil {
		return nil, "", err
	}
	if digest, err = r.Digest(); err != nil {
		return nil, "", err
	}
	boot, stop := context.WithTimeout(ctx, bootLimit)
	remove.TryCleanBoot(boot, e)
	stop()
	o, err = e.Begin(ctx, r.ID)
	if err == nil && r.Notify != nil {
		o.Notify = r.Notify
	}
	return o, digest, err
}

// bootLimit is how long a call waits at most for what earlier boots left. What
// is not done by then is left to RetryPending and GC.
const bootLimit = 2 * time.Second

// reuseOrReset returns an existing allocation that is set up as requested, and tears down
// an interrupted one. Without an error and an allocation nothing is on record.
func reuseOrReset(ctx context.Context, o *operation.Operation, r plan.Request, digest string) (*allocation.Allocation, error) {
	if !o.HasRecord() {
		return nil, refuseUnrecorded(o)
	}
	if err := o.RepairRecord(); err != nil {
		return nil, err
	}
	alive, same, err := compareNamespace(o, r.Netns)
	if err != nil {
		return nil, err
	}
	if alive && o.IsSetUp() {
		if r.Fresh {
			return nil, fmt.Errorf("allocation %s %w", r.ID, ErrExists)
		}
		remove.RollBackInterrupted(ctx, o)
		if !same || o.Record.Allocation.Digest != digest {
			return nil, fmt.Errorf("allocation %s %w: %s", r.ID, ErrConflict, plan.Difference(o.Record, r, same))
		}
		return onrecord.Describe(o.Record)
	}
	return nil, tearDownEarlier(ctx, o)
}

// refuseUnrecorded returns an error if libcni's cache has attachments of the
// allocation that exist in its namespace. New ones would have the same container IDs, and
// removing either would remove the plugins' objects of both.
func refuseUnrecorded(o *operation.Operation) error {
	lost := operation.NewOperation(o.Config, o.Store, state.Record{Allocation: state.Allocation{ID: o.Record.Allocation.ID}})
	defer lost.CloseNamespace()
	if err := lost.LoadFromCache(); err != nil {
		return err
	}
	if len(lost.Record.Attachments) == 0 {
		return nil
	}
	ns, err := lost.Namespace()
	if errors.Is(err, netns.ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	interfaces, err := ns.Interfaces()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(lost.Record.Attachments, func(a state.Attachment) bool { return onrecord.Shows(a, interfaces) }) {
		id := o.Record.Allocation.ID
		return errdefs.As(errdefs.Conflict, fmt.Errorf("allocation %s exists in %s, and its record is lost: to remove it: allocnet detach %s", id, lost.Record.Allocation.Netns, id))
	}
	return nil
}

// tearDownEarlier removes an earlier set-up, so that nothing is on record.
func tearDownEarlier(ctx context.Context, o *operation.Operation) error {
	o.Log.Info("tearing down an earlier set-up", "netns", o.Record.Allocation.Netns)
	defer o.Because(config.ReasonReset)()
	ctx, stop := operation.Phase(ctx, operation.ResetShare, "tearing down")
	defer stop()
	if err := remove.All(ctx, o); err != nil {
		return fmt.Errorf("tear down an earlier set-up: %w", err)
	}
	o.Reset()
	return nil
}

// carryOut executes a plan, and rolls back all of it on failure.
func carryOut(ctx context.Context, o *operation.Operation, p *plan.Plan) (*allocation.Allocation, error) {
	ns, err := sandbox(o, p.Allocation)
	if err == nil {
		defer ns.Close() //nolint:errcheck // read only
		err = attachAll(ctx, o, ns, p)
	}
	if err == nil {
		return describeNew(o)
	}
	// The caller may have cancelled; the rollback needs a context of its own. Results in
	// libcni's cache that are not on record are not of this call.
	undoing, stop := operation.Undoing(ctx)
	defer stop()
	defer o.Because(config.ReasonRollback)()
	if undo := remove.Recorded(undoing, o); undo != nil {
		err = errors.Join(err, errdefs.As(errdefs.Failed, fmt.Errorf("undo: %w", undo)))
	}
	return nil, err
}

// describeNew is describe after a change of the attachments. It logs the values of DNS
// that a resolver would not use.
func describeNew(o *operation.Operation) (*allocation.Allocation, error) {
	a, err := onrecord.Describe(o.Record)
	if err != nil {
		return nil, err
	}
	if _, dropped := onrecord.SelectedDNS(a.DNSSelection, a.Attachments); len(dropped) > 0 {
		o.Log.Warn(fmt.Sprintf("DNS values are not used: a resolver takes addresses of at most %d name servers, and words", resolvconf.MaxServers), "dns", a.DNSSelection, "values", dropped)
	}
	return a, nil
}

// newPlan resolves a request.
func newPlan(e *operation.Env, host plan.Host, r plan.Request, digest string) (*plan.Plan, error) {
	a, err := recordOf(e.Config, r, state.ModeSetup, digest)
	if err != nil {
		return nil, err
	}
	return plan.New(a, r, facts(e, host))
}

// facts are those of the engine, and of the host as an operation has it, for a plan.
func facts(e *operation.Env, host plan.Host) plan.Facts {
	return plan.Facts{
		Networks:   e.Config.Resolve,
		Policy:     func() (policy.Source, error) { return policy.Load(e.Config.PolicyFile) },
		PluginDirs: e.Config.PluginDirs,
		Host:       host,
		Record:     e.Store.Read,

		PublishedAddresses: e.Config.PublishedAddresses,
		UnpinnedMTU: func(bridge string) int {
			return step.UnpinnedMTU(context.Background(), e.Store, e.Config.Logger, bridge, "", "")
		},
		WhyPlugins: e.Config.ReasonForPlugins,
		Joins:      isolate.Joins(&e.Config, e.Store),
	}
}

// reportAttach reports a request that failed without the failure of an attachment, which
// is reported already.
func reportAttach(e *operation.Env, r plan.Request, started time.Time, err error) {
	var names []string
	if r.Primary != nil {
		names = append(names, r.Primary.Name)
	}
	for _, further := range slices.Concat(r.Networks, r.Defaults) {
		names = append(names, further.Name)
	}
	e.ReportCall(config.Observation{Op: config.OpAttach, Allocation: r.ID, Identity: r.Identity, Task: r.Task, Networks: names, Err: err}, started)
}
