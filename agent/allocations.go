// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/state"
)

// getAllocations lists all that are on record. Of one that cannot be read the
// list has the ID and the error.
func (a *Agent) getAllocations(r *http.Request) (any, error) {
	all := []*api.Allocation{}
	for allocation, err := range a.engine.List(r.Context()) {
		var unreadable *state.UnreadableError
		switch {
		case errors.As(err, &unreadable):
			allocation = &api.Allocation{ID: unreadable.ID, Error: unreadable.Err.Error()}
		case err != nil:
			return nil, err
		}
		all = append(all, allocation)
	}
	return all, nil
}

func (a *Agent) getAllocation(r *http.Request) (any, error) {
	return a.engine.Status(r.Context(), r.PathValue("id"))
}

// putAllocation sets an allocation up. A client that goes away has it undone:
// it will not learn what came of it.
func (a *Agent) putAllocation(r *http.Request) (any, error) {
	var body api.Setup
	if err := read(r, &body); err != nil {
		return nil, err
	}
	request := hook.Request{
		ID: r.PathValue("id"), Netns: body.Netns, Identity: body.Identity, Networks: body.Networks, Ports: body.Ports, Args: body.Args,
	}
	switch len(body.Primary) {
	case 0:
	case 1:
		request.Primary = &body.Primary[0]
	default:
		return nil, &hook.RequestError{Field: "primary", Value: body.Primary[1].Name, Reason: "want one network; further ones belong to \"networks\""}
	}
	return a.engine.Setup(r.Context(), request)
}

// deleteAllocation takes an allocation down, also when the client goes away.
func (a *Agent) deleteAllocation(r *http.Request) (any, error) {
	if err := readNothing(r); err != nil {
		return nil, err
	}
	ctx, stop := hook.Undoing(r.Context())
	defer stop()
	return nil, a.engine.Teardown(ctx, r.PathValue("id"))
}

func (a *Agent) postDelegate(r *http.Request) (any, error) {
	var body api.Delegate
	if err := read(r, &body); err != nil {
		return nil, err
	}
	if err := state.ValidateID(body.Allocation); err != nil {
		return nil, err
	}
	if a.config.Attacher == nil {
		return nil, unsupported("this agent changes no allocation that is set up")
	}
	switch body.Command {
	case api.Add:
		if len(body.Networks) == 0 || body.Interface != "" {
			return nil, &hook.RequestError{Field: "networks", Reason: "ADD wants at least one, and the interface as a part of it"}
		}
		return a.config.Attacher.Attach(r.Context(), body.Allocation, body.Networks)
	case api.Del:
		if body.Interface == "" || len(body.Networks) > 0 {
			return nil, &hook.RequestError{Field: "interface", Value: body.Interface, Reason: "DEL wants the interface, and no networks"}
		}
		ctx, stop := hook.Undoing(r.Context())
		defer stop()
		err := a.config.Attacher.Detach(ctx, body.Allocation, body.Interface)
		if isType[*hook.NotAttachedError](err) { // as after the first of two calls
			err = nil
		}
		return nil, err
	}
	return nil, &hook.RequestError{Field: "command", Value: body.Command, Reason: "want ADD or DEL"}
}

func (a *Agent) postGC(r *http.Request) (any, error) {
	if err := readNothing(r); err != nil {
		return nil, err
	}
	collected, err := a.config.Collect(r.Context())
	if err != nil && collected != nil && len(collected.TornDown) > 0 {
		err = errors.Join(fmt.Errorf("torn down %d allocations, but not all", len(collected.TornDown)), err)
	}
	return collected, err
}
