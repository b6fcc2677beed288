// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook/internal/attach"
	"github.com/allocnet/allocnet/hook/internal/check"
	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/isolate"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/hook/internal/remove"
	"github.com/allocnet/allocnet/hook/internal/repair"
	"github.com/allocnet/allocnet/hook/internal/step"
)

// What callers give and get. Each is described where it is declared, such as by go doc ./hook/internal/plan Request.
type (
	// Checked is the outcome of Check for one attachment.
	Checked = check.Checked
	// Details are what is recorded of an attachment beside Attachment, and what it has on the host beside links.
	Details = allocation.Details
	// CheckRequest says what CheckUnknown examines.
	CheckRequest = check.UnknownRequest
	// Verification names the allocation that a runtime checks.
	Verification = check.Verification
	// Cleaner removes from the host what a DEL left behind.
	Cleaner = config.Cleaner
	// Config says where a Hook finds and keeps things.
	Config = config.Config
	// Observation is one operation on one attachment, after its last attempt.
	Observation = config.Observation
	// Observer receives every operation.
	Observer = config.Observer
	// Remover is a process that has removed rules, as the kernel has told.
	Remover = allocation.Remover
	// DamageError is what was seen to be wrong with a network.
	DamageError = inspect.DamageError
	// Allocation is an allocation with its attachments.
	Allocation = allocation.Allocation
	// Attachment is one network of an allocation.
	Attachment = allocation.Attachment
	// DNS is the DNS configuration that the plugins returned.
	DNS = allocation.DNS
	// NetworkStatus is an element of network-status as the network plumbing working group defines it (Multi-Network Specification, "Network Attachment Status").
	NetworkStatus = allocation.NetworkStatus
	// Observed is what an attachment has, as its plugins reported it and as the namespace showed what they did not report.
	Observed = allocation.Observed
	// PortMapping is a port of the host that is mapped to the attachment.
	PortMapping = allocation.PortMapping
	// DamagedRecordError is an allocation whose record is damaged.
	DamagedRecordError = operation.DamagedRecordError
	// Error is the failure of one operation on one attachment.
	Error = operation.Error
	// Lease is that of an address from a pool of host-local or allocnet-ipam.
	Lease = allocation.Lease
	// Request says which networks an allocation shall have.
	Request = plan.Request
	// RequestError is a request that is refused before anything is done.
	RequestError = plan.RequestError
	// Step is one attempt to attach a network.
	Step = plan.Step
	// Collected is what a GC did.
	Collected = remove.Collected
	// GCRequest says what one GC removes.
	GCRequest = remove.GCRequest
	// RemovedNetwork is what RemoveNetwork has done.
	RemovedNetwork = remove.RemovedNetwork
	// NotAttachedError is an interface that is not an attachment of the allocation.
	NotAttachedError = remove.NotAttachedError
	// HostEnd is an attachment, and where its packets pass the host.
	HostEnd = isolate.HostEnd
	// DeniedFlow is a flow of which isolation has dropped packets.
	DeniedFlow = allocation.DeniedFlow
	// FlowEnd is one of the two of a flow.
	FlowEnd = allocation.FlowEnd
	// Drift is what an attachment lacks of what was made when it was attached.
	Drift = repair.Drift
	// RepairMode is what RepairAttachments does about what is missing.
	RepairMode = repair.Mode
	// RepairRequest says what RepairAttachments repairs.
	RepairRequest = repair.Request
	// Rule is a rule of the host's packet filters.
	Rule = allocation.Rule
	// PortFamilyError is a chosen port of the host that no address of the attachment can serve.
	PortFamilyError = step.PortFamilyError
)

// Values of these.
const (
	Missing               = allocation.Missing
	Done                  = config.Done
	ExecutorAuto          = config.ExecutorAuto
	ExecutorPlugins       = config.ExecutorPlugins
	Failed                = config.Failed
	OpAttach              = config.OpAttach
	OpCleanup             = config.OpCleanup
	OpDetach              = config.OpDetach
	OpRepair              = config.OpRepair
	OpRetry               = config.OpRetry
	ReasonBoot            = config.ReasonBoot
	ReasonGC              = config.ReasonGC
	ReasonRollback        = config.ReasonRollback
	MergedDNS             = onrecord.MergedDNS
	PrimaryDNS            = onrecord.PrimaryDNS
	Reattaching           = allocation.Reattaching
	IgnoreLeaks           = remove.IgnoreLeaks
	RemoveLeaks           = remove.RemoveLeaks
	ReportLeaks           = remove.ReportLeaks
	ParallelReattachments = repair.ParallelReattachments
	RepairReattach        = repair.Reattach
	RepairReport          = repair.ReportOnly
	RepairRules           = repair.Rules
	SkippedBusy           = repair.SkippedBusy
	SkippedReattachment   = repair.SkippedReattachment
)

// Errors, and the Cleaner that turns forced cleanup off.
var (
	ErrConflict = attach.ErrConflict
	ErrExists   = attach.ErrExists
	ErrNoStatus = check.ErrNoStatus
	NoCleaner   = config.NoCleaner
	ErrAlive    = remove.ErrAlive
)
