// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/lastcheck"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/internal/cniexec"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/state"
)

// repairVersion is the least version of the specification in which plugins repair: older ones
// have no CHECK, or results without some of what they need.
const repairVersion = "1.0.0"

// plugins repairs what the network's plugins have made. Of plugins that are unknown only their
// CHECK tells whether something is missing; last is whether what it last said counts.
func (p *Repairing) plugins(ctx context.Context, ns kernel.Namespace, last bool) {
	a := *p.Attachment()
	list, err := onrecord.List(a)
	if err != nil {
		p.Err = err
		return
	}
	if a.FormerResult != nil {
		p.Unrepairable = append(p.Unrepairable, cmp.Or(a.Error, unfinishedReattachment))
		return
	}
	if p.inProcess = p.operation.Config.IsKnown(a, list); !p.inProcess {
		p.unknown(ns, last)
		return
	}
	if p.stands = a.Executor != state.InProcess && !config.IsInstalled(list, p.operation.Config.DirsOf(a)); p.stands {
		p.DryRun = true
	}
	p.supported(ctx, list)
}

// prove makes what is missing of an attachment no damage, and no repair, if the plugins that made it are not
// installed any more: those may have been of a version that makes other rules.
func (p *Repairing) prove() {
	if p.stands && len(p.Missing) > 0 {
		p.Err = errors.Join(p.Err, fmt.Errorf("its plugins are not installed any more; in their place allocnet misses: %s", strings.Join(p.Missing, "; ")))
		p.Missing = nil
	}
}

// supported repairs what plugins that allocnet knows have made, but leaves their rules to be added.
func (p *Repairing) supported(ctx context.Context, list *libcni.NetworkConfigList) {
	a := *p.Attachment()
	list, err := onrecord.ListToCheck(list, a, p.operation.Record.Attachments)
	if err != nil {
		p.Err = err
		return
	}
	chain := p.operation.Config.InProcess.Chain(a, &p.Repair, plugin.Seams{})
	list.DisableCheck = false // of plugins that do not understand CHECK: these do
	if newer, err := version.GreaterThanOrEqualTo(list.CNIVersion, repairVersion); err == nil && !newer {
		list.CNIVersion = repairVersion
	}
	cni, err := withRecorded(p.operation, chain, a, list)
	if err != nil {
		p.Err = err
		return
	}
	p.Err = errors.Join(p.Err, cni.CheckNetworkList(ctx, list, p.operation.RuntimeConf(a, list, p.operation.Record.Allocation.Netns)))
	p.changes = chain.Changes()
}

// unknown compares the interface, which anyone can. What plugins that are unknown say is known
// from before, or they are to be asked.
func (p *Repairing) unknown(ns kernel.Namespace, last bool) {
	present, err := ns.Interfaces()
	if err == nil {
		err = inspect.Inside(*p.Attachment(), present)
		p.differs = err
	}
	if err != nil || !last {
		p.asks = err == nil
		p.judge(err)
		return
	}
	key := lastcheck.KeyOf(p.operation.Record, *p.Attachment())
	outcome, _ := p.round.env.LastChecks.Of(key)
	p.told = outcome.Reported && outcome.Err != nil
	p.judge(p.trusted(outcome.Judged()))
	if !p.DryRun {
		p.round.env.LastChecks.Report(key)
	}
}

// isTold tells whether an earlier repair has told of all that was found.
func (p *Repairing) isTold() bool { return p.told && len(p.Missing) == 0 }

// askTwice runs CHECK, and again after a while if it reports damage: a task may be changing something.
func (p *Repairing) askTwice(ctx context.Context) error {
	err := p.ask(ctx)
	if err == nil || !inspect.IsDamage(err) {
		return err
	}
	if interrupted := p.operation.Config.Pause(ctx, VerifyPause); interrupted != nil {
		return lastcheck.SeenOnce(err)
	}
	return p.ask(ctx)
}

// judge notes what was seen to be wrong, or why it cannot be seen.
func (p *Repairing) judge(err error) {
	if err != nil && inspect.IsDamage(err) {
		p.Unrepairable = append(p.Unrepairable, err.Error())
		return
	}
	p.Err = errors.Join(p.Err, err)
}

// around repairs what allocnet has made itself around the plugins of an attachment.
func (p *Repairing) around(ctx context.Context, ns kernel.Namespace) error {
	lacks, err := p.operation.WorkIn(ns).Lacks(ctx, *p.Attachment())
	for _, l := range lacks {
		p.ensure(l.What, l.Make)
	}
	return err
}

// errUnknownRules is that plugins which allocnet does not know may have made rules.
var errUnknownRules = errors.New("the network has plugins or options that allocnet does not know, and rules of theirs are not listed")

// RulesOf returns those of an attachment.
func RulesOf(ctx context.Context, o *operation.Operation, at int, list *libcni.NetworkConfigList) ([]allocation.Rule, error) {
	p := &Repairing{operation: o, At: at}
	p.DryRun = true
	if p.Attachment().Result == nil {
		return nil, nil
	}
	if !o.Config.IsKnown(*p.Attachment(), list) {
		return nil, errUnknownRules
	}
	limit := o.Config.CallTimeout
	ctx, stop := context.WithTimeoutCause(ctx, limit, &cniexec.CommitTimeoutError{Limit: limit})
	defer stop()
	p.supported(ctx, list)
	switch {
	case len(p.Unrepairable) > 0:
		return nil, errors.New("not listed while this is missing: " + strings.Join(p.Unrepairable, "; "))
	case p.changes == nil:
		return nil, p.Err
	}
	found, err := o.Config.InProcess.ListRules(ctx, p.changes)
	rules := make([]allocation.Rule, len(found))
	for i, r := range found {
		rules[i] = allocation.Rule{Program: r.Program, Table: r.Table, Chain: r.Chain, Rule: r.Text, Present: r.Present}
	}
	return rules, err
}
