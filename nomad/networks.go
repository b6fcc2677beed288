// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/wake"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// metaKey is the group's meta that selects networks, in either form of package
// selection. ingressKey and egressKey are what it leaves of their traffic.
const (
	metaKey    = "allocnet.networks"
	ingressKey = "allocnet.ingress"
	egressKey  = "allocnet.egress"
)

// ownMeta matches the keys that are meant for allocnet: any other than these is a mistake.
var ownMeta = regexp.MustCompile(`(?i)^allocnet[._-]`)

// cniMode is the prefix of a network block's mode that names a CNI network.
const cniMode = "cni/"

// maxRetryPause limits the growing pause between requests for one allocation.
const maxRetryPause = 5 * time.Second

func refuse(allocation, place, reason string) error {
	return errdefs.As(errdefs.Refused, fmt.Errorf("allocation %s: %s: %s", allocation, place, reason))
}

// Networks returns whose an allocation is, its job networks: those of the group's
// network blocks with mode cni/NAME, except the first block, in their order, then
// those of the group's meta, and what that leaves of their traffic. An allocation whose ID is no UUID is not Nomad's: it has no
// networks, and its identity is not known.
//
// The answer is cached, so that a restart of the allocation needs no Nomad
// server; a job update replaces the allocation. If Nomad cannot be reached, the
// request is repeated until ctx ends.
func (c *Client) Networks(ctx context.Context, id string) (selection.Job, error) {
	if !state.IsNomadID(id) {
		return selection.Job{}, nil
	}
	j, err := c.cache.load(id)
	if err == nil && j == nil {
		j, err = c.readJob(ctx, id)
	}
	if err != nil {
		return selection.Job{}, err
	}
	return *j, nil
}

func (c *Client) readJob(ctx context.Context, id string) (*selection.Job, error) {
	a, err := c.allocation(ctx, id)
	if err != nil {
		return nil, err
	}
	j, err := jobOf(a)
	if err != nil {
		return nil, err
	}
	return &j, c.cache.store(id, j)
}

// identity is what Nomad 1.9.4 and later say of an allocation in CNI arguments.
func identity(a *api.Allocation) policy.Identity {
	i := policy.Identity{Namespace: a.Namespace, Job: a.JobID, Group: a.TaskGroup}
	if a.Job != nil && a.Job.Region != nil {
		i.Region = *a.Job.Region
	}
	return i
}

// Forget removes the cached networks of an allocation, if any.
func (c *Client) Forget(id string) error {
	if err := state.ValidateID(id); err != nil {
		return err
	}
	return c.cache.remove(id)
}

// Prune removes the cached networks of all allocations that are not live: their
// teardown may not have called Forget. The next Networks asks Nomad again.
func (c *Client) Prune(live map[string]bool) error { return c.cache.prune(live) }

// allocation reads an allocation, and repeats the request until Nomad answers. An
// unknown allocation is an error: Nomad's answer for one that the token may not
// read is the same.
func (c *Client) allocation(ctx context.Context, id string) (*api.Allocation, error) {
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, maxRetryPause) {
		options, err := c.query(ctx)
		if err != nil {
			return nil, err
		}
		a, _, err := c.api.Allocations().Info(id, options)
		if err == nil && a.ID != id {
			return nil, fmt.Errorf("read allocation %s from nomad: the answer is allocation %q", id, a.ID)
		}
		if err == nil {
			return a, nil
		}
		if final := finalError(id, err); final != nil {
			return nil, final
		}
		c.log.Warn("cannot read an allocation from Nomad, retrying", "allocation", id, "in", pause.String(), "error", err)
		if !wake.After(ctx, pause) {
			cause := context.Cause(ctx)
			return nil, errdefs.As(errdefs.Of(cause), fmt.Errorf("read allocation %s from nomad: %w, last error: %w", id, cause, err))
		}
	}
}

// finalError returns the error of a request that a retry would not change; nil
// for a server error, too many connections, or no answer.
func finalError(id string, err error) error {
	var answer api.UnexpectedResponseError
	if !errors.As(err, &answer) || answer.StatusCode() >= http.StatusInternalServerError || answer.StatusCode() == http.StatusTooManyRequests {
		return nil
	}
	if answer.StatusCode() == http.StatusNotFound {
		return refuse(id, "nomad", "no such allocation, or the token lacks read-job in its namespace")
	}
	return fmt.Errorf("read allocation %s from nomad: %w", id, err)
}

// taskGroup returns the group of an allocation; nil if an answer lacks it.
func taskGroup(a *api.Allocation) *api.TaskGroup {
	if a.Job == nil {
		return nil
	}
	for _, g := range a.Job.TaskGroups {
		if g != nil && g.Name != nil && *g.Name == a.TaskGroup {
			return g
		}
	}
	return nil
}

func jobOf(a *api.Allocation) (j selection.Job, err error) {
	group := taskGroup(a)
	if group == nil {
		return j, refuse(a.ID, "group "+a.TaskGroup, "the job has no such group")
	}
	elements, err := blockNetworks(a.ID, group.Networks)
	if err != nil {
		return j, err
	}
	meta, err := groupMeta(a, group)
	if err != nil {
		return j, err
	}
	named, err := selection.Parse(meta[metaKey])
	if err != nil {
		return j, refuse(a.ID, "meta "+metaKey, err.Error())
	}
	for key, parse := range map[string]func(string) (isolation.Narrowing, error){ingressKey: isolation.ParseIngress, egressKey: isolation.ParseEgress} {
		if text, given := meta[key]; given {
			if _, err := parse(text); err != nil {
				return j, refuse(a.ID, "meta "+key, err.Error())
			}
		}
	}
	return selection.Job{
		Identity: identity(a), Networks: append(elements, named...),
		Narrowing: selection.Narrowing{Ingress: meta[ingressKey], Egress: meta[egressKey]},
	}, nil
}

// groupMeta returns the meta of a group, which includes that of its job.
func groupMeta(a *api.Allocation, group *api.TaskGroup) (map[string]string, error) {
	meta := maps.Clone(a.Job.Meta)
	if meta == nil {
		meta = map[string]string{}
	}
	maps.Copy(meta, group.Meta)
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		if !ownMeta.MatchString(key) {
			continue
		}
		if !slices.Contains([]string{metaKey, ingressKey, egressKey}, key) {
			return nil, refuse(a.ID, "meta "+key, fmt.Sprintf("is unknown: want %s, %s or %s", metaKey, ingressKey, egressKey))
		}
		if strings.Contains(meta[key], "${") {
			return nil, refuse(a.ID, "meta "+key, fmt.Sprintf("%q has a variable: Nomad interpolates none there", meta[key]))
		}
	}
	for _, task := range group.Tasks {
		for _, key := range slices.Sorted(maps.Keys(task.Meta)) {
			if ownMeta.MatchString(key) {
				return nil, refuse(a.ID, fmt.Sprintf("meta %s of task %s", key, task.Name), "a task has the networks of its group: move it there")
			}
		}
	}
	return meta, nil
}

// blockNetworks reads the network blocks after the first. It leaves out blocks
// without a CNI mode, which Nomad ignores, and those that select their network by
// CNI arguments, which the plugin reads. A port in one of the blocks is an error.
func blockNetworks(id string, networks []*api.NetworkResource) ([]selection.Element, error) {
	var elements []selection.Element
	for i, network := range networks {
		if i > 0 && len(network.DynamicPorts)+len(network.ReservedPorts) > 0 {
			return nil, refuse(id, fmt.Sprintf("network[%d].port", i), "Nomad maps only the ports of the first network block: move the port there")
		}
		name, isCNI := strings.CutPrefix(network.Mode, cniMode)
		if i == 0 || !isCNI || selectsByArgs(network, name) {
			continue
		}
		e, err := selection.ParseElement(name, "")
		if err != nil {
			return nil, refuse(id, fmt.Sprintf("network[%d].mode", i), err.Error())
		}
		elements = append(elements, e)
	}
	return elements, nil
}

func selectsByArgs(network *api.NetworkResource, name string) bool {
	if network.CNI == nil {
		return false
	}
	_, selects := network.CNI.Args["networks."+name]
	return selects
}
