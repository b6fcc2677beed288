// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/internal/dhcp"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sysctl"
)

// DefaultDir is the default state directory.
const DefaultDir = "/var/lib/allocnet"

// FormatVersion is that of the lines of a journal. Version 1 had a file for each
// attachment, and the checksums of version 2 did not cover the version.
const FormatVersion = 3

// Phase is a phase of an attachment's life cycle.
type Phase = allocation.Phase

// Phases that are recorded. In the phase Adding, an attachment that is Planned has nothing.
const (
	Adding   = allocation.Adding
	Attached = allocation.Attached
	Deleting = allocation.Deleting
	Pending  = allocation.Pending
)

// Mode is the call that recorded an allocation.
type Mode string

// Modes of an allocation.
const (
	// ModeSetup: Setup recorded it, and it is complete with the attachments of
	// Setup's batch.
	ModeSetup Mode = "setup"
	// ModeExtend: Extend recorded it, for a namespace whose primary network another
	// runtime made. The record is removed with its last attachment.
	ModeExtend Mode = "extend"
	// ModeUnknown: the record is lost, or the line of the allocation is damaged.
	ModeUnknown Mode = "unknown"
)

// Valid tells whether the mode can be recorded.
func (m Mode) Valid() bool { return m == ModeSetup || m == ModeExtend || m == ModeUnknown }

// BatchKind is the call that a batch is of.
type BatchKind string

// Kinds of batches.
const (
	// BatchSetup is of Setup; an allocation has one.
	BatchSetup BatchKind = "setup"
	// BatchExtend is of one Extend.
	BatchExtend BatchKind = "extend"
	// BatchDetach is one attachment that a Detach removes.
	BatchDetach BatchKind = "detach"
)

// Batch identifies the attachments that one call attaches or removes, all or none
// of them.
type Batch struct {
	Kind BatchKind `json:"kind"`
	// ID is the digest of the Extend, or the interface of the Detach; empty for
	// BatchSetup.
	ID string `json:"id,omitempty"`
	// First is the Index of the first attachment of the Extend: a repeated Extend has
	// the same digest, and a batch of its own. 0 for the other kinds.
	First int `json:"first,omitempty"`
}

// Valid tells whether the batch can be recorded.
func (b Batch) Valid() bool {
	return b.Kind == BatchSetup || b.Kind == BatchExtend || b.Kind == BatchDetach
}

// Executor is what executes the plugins of an attachment.
type Executor = allocation.Executor

// Executors of an attachment.
const (
	// Plugins are the programs of the plugin directories.
	Plugins Executor = "plugins"
	// InProcess is allocnet itself.
	InProcess Executor = "in-process"
)

// Identity is an allocation's identity in the orchestrator.
type Identity = allocation.Identity

// Allocation is the record of an allocation as a whole.
type Allocation struct {
	ID string `json:"id"`
	// Mode is empty for an allocation that is not recorded.
	Mode Mode `json:"mode"`
	// Identity is that of the allocation's job.
	Identity Identity `json:"identity,omitzero"`
	// Owner is the caller of Setup; see hook.Request.
	Owner string `json:"owner,omitempty"`
	// Netns is the path of its network namespace.
	Netns string `json:"netns"`
	// NetnsOwned is whether teardown removes the namespace.
	NetnsOwned bool `json:"netnsOwned,omitempty"`
	// ResolvConf is the resolv.conf of a namespace that is removed by teardown. The file
	// may be missing, or another program's. Empty: none is written.
	ResolvConf string `json:"resolvConf,omitempty"`
	// NetnsID is the namespace's identity in the kernel; empty until it is
	// known.
	NetnsID string `json:"netnsID,omitempty"`
	// BootID is the boot in which the allocation was set up.
	BootID string `json:"bootID"`
	// DNS says whose DNS the allocation has; see hook.Allocation. Empty: that of the
	// primary network.
	DNS string `json:"dns,omitempty"`
	// Digest identifies the request of Setup; empty in another mode.
	Digest string `json:"digest,omitempty"`
	// PreviousRoutes are those of deleted attachments: DEL is done, and one of them is
	// still to be restored.
	PreviousRoutes []netns.Route `json:"previousRoutes,omitempty"`
	Created        time.Time     `json:"created"`
}

// Attachment is the record of one attachment: the arguments of ADD and DEL, and the result
// of ADD.
type Attachment struct {
	Network   string `json:"network"`
	Interface string `json:"interface"`
	// ContainerID is what plugins get as CNI_CONTAINERID: the allocation's ID
	// for the primary, else that of the function ContainerID.
	ContainerID string `json:"containerID"`
	// Index is the place among the allocation's attachments, from 0.
	Index   int   `json:"index"`
	Primary bool  `json:"primary,omitempty"`
	Phase   Phase `json:"phase"`
	// Planned is whether ADD is known not to have begun, so that DEL has nothing to
	// remove. A power cut may bring it back after ADD.
	Planned bool  `json:"planned,omitempty"`
	Batch   Batch `json:"batch"`
	// Task is the allocation's task that it was attached for; empty for the
	// allocation itself.
	Task string `json:"task,omitempty"`
	// ConfList, Args and CapabilityArgs are the arguments of ADD and DEL.
	ConfList       json.RawMessage `json:"conflist"`
	Args           [][2]string     `json:"args,omitempty"`
	CapabilityArgs map[string]any  `json:"capabilityArgs,omitempty"`
	// ChosenPorts are those of the portMappings in CapabilityArgs, in the same
	// form, that no scheduler assigned; none: all were assigned.
	ChosenPorts json.RawMessage `json:"chosenPorts,omitempty"`
	// Chosen are the addresses and MACs that the request chose, in the kernel's form: nothing
	// else may get them from now on.
	Chosen []string `json:"chosen,omitempty"`
	// BridgeMTU has the bridges that the attachment's smaller MTU must not
	// lower, with the MTU of the network.
	BridgeMTU map[string]int `json:"bridgeMTU,omitempty"`
	// Device is the name on the host of the interface, if that is a device which a plugin has moved
	// from there; empty if none has, or until its batch is attached.
	Device string `json:"device,omitempty"`
	// DeviceIndex and DeviceKind are those of it in the namespace, which tasks cannot change; zero
	// if they are unknown.
	DeviceIndex int    `json:"deviceIndex,omitempty"`
	DeviceKind  string `json:"deviceKind,omitempty"`
	// Executor is what executed ADD; empty until it began.
	Executor Executor `json:"executor,omitempty"`
	// IPTables is which program iptables was at ADD: "nft", "legacy", or empty for unknown. Rules of one
	// are none of the other's.
	IPTables string `json:"iptables,omitempty"`
	// RuleHandles are those of its rules in nftables, as far as ADD knows them: by "FAMILY TABLE CHAIN". They prove nothing: after a
	// reload of all rules they are those of others.
	RuleHandles map[string][]uint64 `json:"ruleHandles,omitempty"`
	// PluginDirs are where the plugins were found.
	PluginDirs []string `json:"pluginDirs,omitempty"`
	// DependsOn names the interfaces whose attachments this one has to follow. An
	// attachment with a greater Index is a later one that has the name by now.
	DependsOn []string `json:"dependsOn,omitempty"`
	// PreviousRoutes are the default routes from before ADD, the preferred ones first:
	// when this attachment is removed, one of them is restored.
	PreviousRoutes []netns.Route `json:"previousRoutes,omitempty"`
	// SourceRoutes are the attachment's own routing table; nil without the option. Until
	// ADD is done they have only a number and the interface.
	SourceRoutes *netns.SourceRoutes `json:"sourceRoutes,omitempty"`
	// Result is what ADD returned, or in phase Adding the part of its chain
	// that is done; nil until then.
	Result json.RawMessage `json:"result,omitempty"`
	// FormerResult is the result from before a repair that attaches it again, until that is
	// done: DEL and ADD may have run, and Result and Planned are those of the last ADD. nil: no
	// repair does so.
	FormerResult json.RawMessage `json:"formerResult,omitempty"`
	// AcceptRA is whether its interface was set to accept IPv6 router advertisements, or to
	// ignore them. nil: it is left to a plugin, or the record is of an earlier build.
	AcceptRA *bool `json:"acceptRA,omitempty"`
	// AwaitRA is whether Advertised are on record: those addresses that router advertisements have given its interface, as it was seen
	// last.
	AwaitRA    bool           `json:"awaitRA,omitempty"`
	Advertised []netip.Prefix `json:"advertised,omitempty"`
	// IPv6Off is whether its interface and the end of it on the host were made without IPv6.
	IPv6Off bool `json:"ipv6Off,omitempty"`
	// StrictARP is whether its interface answers ARP for its own addresses alone.
	StrictARP bool `json:"strictARP,omitempty"`
	// Isolation is how it is kept apart; nil: it is not, or the record is of an earlier build.
	Isolation *Isolation `json:"isolation,omitempty"`
	// DHCP is the lease of its IPv4 address, and DHCPv6 that of its IPv6 address; nil: it has none, or another program keeps it.
	DHCP   *dhcp.Lease `json:"dhcp,omitempty"`
	DHCPv6 *dhcp.Lease `json:"dhcpv6,omitempty"`
	// CheckPassed is whether CHECK of plugins that allocnet does not know has passed. False: a CHECK that
	// fails proves no damage.
	CheckPassed bool `json:"checkPassed,omitempty"`
	// Status is the attachment as inspected in the namespace; nil until its whole batch
	// is attached.
	Status json.RawMessage `json:"status,omitempty"`
	// Attempts counts ADD, or in the phases of teardown DEL.
	Attempts int `json:"attempts,omitempty"`
	// Error says why the phase is Pending, or what was missing when a repair began to attach it again.
	Error   string    `json:"error,omitempty"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
}

// Record is all that is recorded of an allocation.
type Record struct {
	Allocation Allocation
	// Attachments are in the order of their Index.
	Attachments []Attachment
	// Damaged are the parts that could not be read: their content is unknown.
	Damaged []Damaged
}

// Damaged is a part of a record that could not be read.
type Damaged struct {
	// Path is the file.
	Path string
	// Line is the line of the journal, from 1; 0 is the file as a whole.
	Line int
	Err  error
}

func (d Damaged) String() string {
	if d.Line == 0 {
		return fmt.Sprintf("%s: %v", d.Path, d.Err)
	}
	return fmt.Sprintf("%s, line %d: %v", d.Path, d.Line, d.Err)
}

// ErrNotFound is an allocation that is not recorded.
var ErrNotFound = errdefs.New(errdefs.NotFound, "is not set up here")

// VersionError is a file of a format that this program does not know. Such a
// file is left where it is: a newer program wrote it.
type VersionError struct {
	Path    string
	Version int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has format version %d, this program knows %d: use the newer program", e.Path, e.Version, FormatVersion)
}

// Kind is that of package errdefs.
func (*VersionError) Kind() errdefs.Kind { return errdefs.Failed }

// UnreadableError is an allocation whose record cannot be read. It may be alive or
// dead.
type UnreadableError struct {
	ID  string
	Err error
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("record of allocation %s cannot be read: %v", e.ID, e.Err)
}

func (e *UnreadableError) Unwrap() error { return e.Err }

// Kind is that of package errdefs.
func (*UnreadableError) Kind() errdefs.Kind { return errdefs.Failed }

func invalidID(id, reason string) error {
	return errdefs.As(errdefs.Refused, fmt.Errorf("allocation ID %q: %s", id, reason))
}

// AmbiguousIDError is a prefix of the IDs of several allocations.
type AmbiguousIDError struct {
	Prefix string
	IDs    []string
}

func (e *AmbiguousIDError) Error() string {
	return fmt.Sprintf("%s is a prefix of %d allocation IDs: want a longer one of:\n%s", e.Prefix, len(e.IDs), strings.Join(e.IDs, "\n"))
}

// Kind is that of package errdefs.
func (*AmbiguousIDError) Kind() errdefs.Kind { return errdefs.Refused }

// isAlphanumeric is whether a byte is an ASCII letter or digit. What follows is no regular
// expression: to compile one takes a part of the start of the plugins.
func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// hasIDForm is whether a text has the form of an ID: letters, digits, _, . and -, beginning with
// a letter or digit.
func hasIDForm(text string) bool {
	for i := range len(text) {
		if !isAlphanumeric(text[i]) && (i == 0 || !strings.Contains("_.-", text[i:i+1])) {
			return false
		}
	}
	return text != ""
}

// ValidateID checks an allocation ID against the CNI specification's rule for a
// container ID (section 3, "Parameters"), and against 128 bytes, the limit
// of a comment in nftables. It must not have the form of an attachment's container ID.
func ValidateID(id string) error {
	if strings.Contains(id, separator) {
		return invalidID(id, "contains \""+separator+"\", which only container IDs of attachments have: want the part before it, or another ID")
	}
	return validateForm(id)
}

// IsNomadID tells whether an ID has the form of Nomad's: 8, 4, 4, 4 and 12 hexadecimal digits.
// All of them have one length, so that none is a prefix of another.
func IsNomadID(id string) bool {
	for i := range len(id) {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (id[i] == '-') || !strings.Contains("0123456789abcdef-", id[i:i+1]) {
			return false
		}
	}
	return len(id) == 36
}

// NomadIndex returns the number of an allocation in its group by Nomad's name of it, such as job.group[3].
func NomadIndex(name string) (int, bool) {
	digits, ok := strings.CutSuffix(name[strings.LastIndexByte(name, '[')+1:], "]")
	index, err := strconv.ParseUint(digits, 10, 31)
	return int(index), ok && err == nil
}

func validateForm(id string) error {
	switch {
	case id == "":
		return invalidID(id, "is empty")
	case len(id) > 128:
		return invalidID(id, fmt.Sprintf("has %d bytes, want at most 128", len(id)))
	case !hasIDForm(id):
		return invalidID(id, "want letters, digits, '_', '.' and '-', beginning with a letter or digit")
	}
	return nil
}

// BootID returns the kernel's, which differs after every boot.
func BootID() (string, error) { return sysctl.Get("kernel/random/boot_id") }
