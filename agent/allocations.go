// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/state"
)

// getAllocations lists the recorded allocations whose IDs begin with the prefix of the
// query, as Nomad's API does. An allocation whose record cannot
// be read is listed with its ID and the error.
func (a *Agent) getAllocations(r *http.Request) (any, error) {
	var found []*hook.Allocation
	prefix := r.URL.Query().Get("prefix")
	for allocation, err := range a.engine.List(r.Context()) {
		var unreadable *state.UnreadableError
		switch {
		case errors.As(err, &unreadable):
			allocation = &hook.Allocation{ID: unreadable.ID, Error: unreadable.Err.Error()}
		case err != nil:
			return nil, err
		}
		if strings.HasPrefix(allocation.ID, prefix) {
			found = append(found, a.engine.Current(allocation))
		}
	}
	a.config.addDenied(r.Context(), found...)
	all := []any{}
	for _, allocation := range found {
		listed, _ := wireAllocation(allocation, nil)
		all = append(all, listed)
	}
	return all, nil
}

func (a *Agent) getAllocation(r *http.Request) (any, error) {
	allocation, err := a.engine.Status(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	allocation = a.engine.Current(allocation)
	a.config.addDenied(r.Context(), allocation)
	return wireAllocation(allocation, nil)
}

// putAllocation sets an allocation up. A client that disconnects does not learn the
// result, so the set-up is undone.
func (a *Agent) putAllocation(r *http.Request) (any, error) {
	var body setupBody
	if err := read(r, &body); err != nil {
		return nil, err
	}
	request, err := body.request(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return wireAllocation(a.engine.Setup(r.Context(), request))
}

// deleteAllocation takes an allocation down, even if the client disconnects.
func (a *Agent) deleteAllocation(r *http.Request) (any, error) {
	ctx, stop := hook.Undoing(r.Context())
	defer stop()
	return nil, a.engine.Teardown(ctx, r.PathValue("id"))
}

func (a *Agent) postAttachments(r *http.Request) (any, error) {
	var body attachBody
	if err := read(r, &body); err != nil {
		return nil, err
	}
	id, err := a.attachable(r)
	if err != nil {
		return nil, err
	}
	if len(body.Networks) == 0 {
		return nil, &hook.RequestError{Field: "networks", Reason: "want at least one"}
	}
	return wireAllocation(a.config.Attacher.Extend(r.Context(), hook.Request{ID: id, Networks: body.Networks}))
}

// deleteAttachment detaches one interface, even if the client disconnects. An
// interface that is not attached is no error, as for DEL.
func (a *Agent) deleteAttachment(r *http.Request) (any, error) {
	id, err := a.attachable(r)
	if err != nil {
		return nil, err
	}
	ctx, stop := hook.Undoing(r.Context())
	defer stop()
	err = a.config.Attacher.Detach(ctx, id, r.PathValue("interface"))
	if isType[*hook.NotAttachedError](err) {
		err = nil
	}
	return nil, err
}

// attachable returns the ID of the allocation whose attachments are to change.
func (a *Agent) attachable(r *http.Request) (string, error) {
	id := r.PathValue("id")
	if err := state.ValidateID(id); err != nil {
		return "", err
	}
	if a.config.Attacher == nil {
		return "", unsupported("this agent does not change the attachments of an allocation")
	}
	return id, nil
}

func (a *Agent) postGC(r *http.Request) (any, error) {
	collected, err := a.config.Collect(r.Context())
	if err != nil {
		if collected != nil && len(collected.TornDown) > 0 {
			err = errors.Join(fmt.Errorf("torn down %d allocations, but not all", len(collected.TornDown)), err)
		}
		return nil, err
	}
	wire := *collected
	wire.TornDown, wire.Networks = append([]string{}, wire.TornDown...), append([]string{}, wire.Networks...)
	return wire, nil
}
