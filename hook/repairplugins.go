// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/lastcheck"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/state"
)

// repairVersion is the least version of the specification in which plugins repair: older ones
// have no CHECK, or results without some of what they need.
const repairVersion = "1.0.0"

// plugins repairs what the network's plugins have made. Of plugins that are unknown only their
// CHECK tells whether something is missing; last is whether what it last said counts.
func (p *repairing) plugins(ctx context.Context, ns kernel.Namespace, last bool) {
	a := *p.attachment()
	list, err := onrecord.List(a)
	if err != nil {
		p.Err = err
		return
	}
	if a.FormerResult != nil {
		p.Unrepairable = append(p.Unrepairable, cmp.Or(a.Error, unfinishedReattachment))
		return
	}
	if p.inProcess = p.operation.config.isKnown(a, list); !p.inProcess {
		p.unknown(ns, last)
		return
	}
	if p.stands = a.Executor != state.InProcess && !isInstalled(list, p.operation.config.pluginDirs(a)); p.stands {
		p.DryRun = true
	}
	p.supported(ctx, list)
}

// prove makes what is missing of an attachment no damage, and no repair, if the plugins that made it are not
// installed any more: those may have been of a version that makes other rules.
func (p *repairing) prove() {
	if p.stands && len(p.Missing) > 0 {
		p.Err = errors.Join(p.Err, fmt.Errorf("its plugins are not installed any more; in their place allocnet misses: %s", strings.Join(p.Missing, "; ")))
		p.Missing = nil
	}
}

// supported repairs what plugins that allocnet knows have made, but leaves their rules to be added.
func (p *repairing) supported(ctx context.Context, list *libcni.NetworkConfigList) {
	a := *p.attachment()
	chain := p.operation.config.InProcess.Chain(a, &p.Repair)
	list.DisableCheck = false // of plugins that do not understand CHECK: these do
	if newer, err := version.GreaterThanOrEqualTo(list.CNIVersion, repairVersion); err == nil && !newer {
		list.CNIVersion = repairVersion
	}
	path := p.operation.record.Allocation.Netns
	runner, err := p.operation.runner(chain, path)
	if err != nil {
		p.Err = err
		return
	}
	exec := &checkExec{Exec: runner}
	if err := p.operation.setResult(exec, a, list.CNIVersion); err != nil {
		p.Err = err
		return
	}
	cni := libcni.NewCNIConfigWithCacheDir(p.operation.config.pluginDirs(a), "/dev/null", exec)
	p.Err = errors.Join(p.Err, cni.CheckNetworkList(ctx, list, p.operation.runtimeConf(a, path)))
	p.changes = chain.Changes()
}

// isKnown tells whether an attachment can be repaired in this process. What executed ADD does not
// matter: the objects are the same.
func (c Config) isKnown(a state.Attachment, list *libcni.NetworkConfigList) bool {
	x := c.InProcess
	return x != nil && (a.Executor == state.InProcess || x.Supports(list, c.pluginDirs(a)) == nil)
}

// unknown compares the interface, which anyone can. What plugins that are unknown say is known
// from before, or they are to be asked.
func (p *repairing) unknown(ns kernel.Namespace, last bool) {
	present, err := ns.Interfaces()
	if err == nil {
		err = inspect.Inside(*p.attachment(), present)
		p.differs = err
	}
	if err != nil || !last {
		p.asks = err == nil
		p.judge(err)
		return
	}
	key := lastcheck.KeyOf(p.operation.record, *p.attachment())
	outcome, _ := p.round.lastChecks.Of(key)
	p.told = outcome.Reported && outcome.Err != nil
	p.judge(p.trusted(outcome.Judged()))
	if !p.DryRun {
		p.round.lastChecks.Report(key)
	}
}

// isTold tells whether an earlier repair has told of all that was found.
func (p *repairing) isTold() bool { return p.told && len(p.Missing) == 0 }

// askTwice runs CHECK, and again after a while if it reports damage: a task may be changing something.
func (p *repairing) askTwice(ctx context.Context) error {
	err := p.ask(ctx)
	if err == nil || !inspect.IsDamage(err) {
		return err
	}
	if interrupted := p.operation.config.pause(ctx, verifyPause); interrupted != nil {
		return lastcheck.SeenOnce(err)
	}
	return p.ask(ctx)
}

// judge notes what was seen to be wrong, or why it cannot be seen.
func (p *repairing) judge(err error) {
	if err != nil && inspect.IsDamage(err) {
		p.Unrepairable = append(p.Unrepairable, err.Error())
		return
	}
	p.Err = errors.Join(p.Err, err)
}

// around repairs what allocnet has made itself around the plugins of an attachment.
func (p *repairing) around(ctx context.Context, ns kernel.Namespace) error {
	lacks, err := p.operation.workIn(ns).Lacks(ctx, *p.attachment())
	for _, l := range lacks {
		p.ensure(l.What, l.Make)
	}
	return err
}
