// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// Request says which networks an allocation shall have.
type Request struct {
	// ID is the allocation's, and the CNI container ID. Required.
	ID string
	// Identity is what the orchestrator says of the allocation; policy decides
	// by it. Empty fields are not known.
	Identity policy.Identity `json:",omitzero"`
	// Owner identifies the caller, for integrations that must distinguish their own
	// allocations from those of others. Empty: the owner is not checked.
	Owner string `json:",omitempty"`
	// Fresh refuses an existing allocation, even if it is as requested, with
	// ErrExists.
	Fresh bool `json:",omitempty"`
	// Netns is the path of the allocation's network namespace. Empty: one is
	// made, pinned under Config.NetnsDir as ID, and removed by Teardown.
	Netns string
	// Primary is the main network. Nil: the namespace has one already, and
	// only the extra networks are attached.
	Primary *selection.Element
	// Networks are the extra networks that the job names, in its order.
	Networks []selection.Element
	// Defaults are extra networks that the host gives every allocation. Their
	// interfaces are numbered after those of Networks.
	Defaults []selection.Element
	// Ports are the allocation's, as the runtime's scheduler assigned them: a job
	// must have no say in them but by the scheduler. An attachment takes those
	// whose labels it names; the others go to the primary.
	Ports []portmap.Port
	// PortOptions are none: the digests on record are of requests with them.
	PortOptions struct{}
	// DNS is whose DNS the allocation gets: PrimaryDNS, MergedDNS, or the name of one of
	// its networks. A job must have no say in it. Empty: as the primary network or the
	// host has it in its options, else PrimaryDNS. For Setup only.
	DNS string `json:",omitempty"`
	// Args are handed to every plugin as CNI_ARGS, besides IgnoreUnknown and those of
	// Identity, which replace theirs.
	Args map[string]string
	// Narrowing is what the job leaves of its traffic, which each of its networks has to permit.
	Narrowing allocation.Narrowing `json:",omitzero"`
	// Operator is whether the host's operator asks. False: a job does, and its
	// selection gets the ports of the host only that a policy allows.
	Operator bool `json:",omitempty"`
	// Notify is told of each step, from several goroutines and before Setup or
	// Extend returns. Nil: steps are not reported.
	Notify func(Step) `json:"-"`
	// Task is the task of the allocation that Extend attaches for; Release finds
	// what is attached by it. Empty: the allocation itself.
	Task string `json:",omitempty"`
}

// Step is one attempt to attach a network.
type Step struct {
	Network   string
	Interface string
	// Attempt counts from 1 to Of.
	Attempt, Of int
	// Err is why the attempt failed; nil when it succeeded.
	Err error
}

// RequestError is a request that is refused before anything is done.
type RequestError struct {
	Field  string
	Value  string
	Reason string
}

func (e *RequestError) Error() string {
	return fmt.Sprintf("%s %q: %s", e.Field, e.Value, e.Reason)
}

// Kind is that of package errdefs.
func (*RequestError) Kind() errdefs.Kind { return errdefs.Refused }

// Validate checks a request by itself.
func (r Request) Validate() error {
	if err := state.ValidateID(r.ID); err != nil {
		return err
	}
	if r.Netns != "" && !filepath.IsAbs(r.Netns) {
		return &RequestError{"netns", r.Netns, "want an absolute path such as /run/netns/web"}
	}
	if r.Primary == nil && len(r.Networks)+len(r.Defaults) == 0 {
		return &RequestError{"networks", "", "nothing to attach: name a primary or an extra network"}
	}
	if err := r.Narrow(unlessEmpty(r.Narrowing.Ingress), unlessEmpty(r.Narrowing.Egress)); err != nil {
		return err
	}
	return validateArgs(r.Args)
}

func unlessEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// Narrow sets what is left of the traffic, by texts that are given; nil: it stays as it is. The error is a *RequestError for the one that cannot be read; one
// that is empty cannot, because it would leave all.
func (r *Request) Narrow(ingress, egress *string) error {
	for _, one := range []struct {
		field      string
		text, into *string
		parse      func(string) (isolation.Narrowing, error)
	}{{"ingress", ingress, &r.Narrowing.Ingress, isolation.ParseIngress}, {"egress", egress, &r.Narrowing.Egress, isolation.ParseEgress}} {
		if one.text == nil {
			continue
		}
		if _, err := one.parse(*one.text); err != nil {
			return &RequestError{one.field, *one.text, err.Error()}
		}
		*one.into = *one.text
	}
	return nil
}

// ValidateExtension checks a request of Extend by itself.
func (r Request) ValidateExtension() error {
	if r.Primary != nil {
		return &RequestError{Field: "primary", Value: r.Primary.Name, Reason: "the allocation exists: name extra networks only"}
	}
	if len(r.Defaults) > 0 {
		return &RequestError{Field: "defaults", Value: r.Defaults[0].Name, Reason: "the allocation exists: name extra networks only"}
	}
	if r.DNS != "" {
		return &RequestError{Field: "dns", Value: r.DNS, Reason: "the allocation exists: it is selected when the allocation is set up"}
	}
	return r.Validate()
}

// Digest identifies the content of a request. The namespace is left out: it is compared
// by its kernel identity, not by its path. Fresh and Operator are left out, too: they
// say how the request is made.
func (r Request) Digest() (string, error) {
	r.Netns, r.Fresh, r.Operator = "", false, false
	data, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("allocation %s: encode request: %w", r.ID, err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}
