// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/allocnet/allocnet/cluster/rest"
	"github.com/allocnet/allocnet/state"
)

type allocation struct {
	ID, Name, Namespace, ClientStatus string
	ModifyTime                        int64
}

// Ended returns since when an allocation is complete or failed, by Nomad's word. It is the zero
// time if the allocation is anything else, lost and unknown included, or if Nomad does not know
// it: its tasks may run.
func (c *Connection) Ended(ctx context.Context, namespace, id string) (time.Time, error) {
	a, err := c.allocation(ctx, namespace, id)
	if err != nil || a.ClientStatus != "complete" && a.ClientStatus != "failed" {
		return time.Time{}, err
	}
	return time.Unix(0, a.ModifyTime), nil
}

// Index returns the number of an allocation in its group, as NOMAD_ALLOC_INDEX.
func (c *Connection) Index(ctx context.Context, namespace, id string) (int, error) {
	a, err := c.allocation(ctx, namespace, id)
	if err != nil {
		return 0, err
	}
	index, ok := state.NomadIndex(a.Name)
	if !ok {
		return 0, fmt.Errorf("nomad does not know allocation %q in namespace %q", id, namespace)
	}
	return index, nil
}

// allocation returns the zero value for one that Nomad does not know. The ID is of a store's
// entry, which anyone may have written.
func (c *Connection) allocation(ctx context.Context, namespace, id string) (allocation, error) {
	if !state.IsNomadID(id) {
		return allocation{}, nil
	}
	var found []allocation // without their jobs, which a question for one has
	if err := c.get(ctx, "/v1/allocations", url.Values{"namespace": {namespace}, "prefix": {id}, "per_page": {"1"}}, &found); err != nil {
		return allocation{}, err
	}
	if len(found) == 0 || found[0].ID != id || found[0].Namespace != namespace {
		return allocation{}, nil
	}
	return found[0], nil
}

// Gone returns whether Nomad does not know the node, and none of its allocations lives. The
// token needs the right to read nodes, and jobs of all namespaces: Nomad leaves out the others.
func (c *Connection) Gone(ctx context.Context, nodeID string) (bool, error) {
	if client, err := c.client(); client == nil || err != nil || !state.IsNomadID(nodeID) {
		return false, err
	}
	var n struct{ ID string }
	err := c.get(ctx, "/v1/node/"+nodeID, url.Values{}, &n)
	if !isStatus(err, http.StatusNotFound) {
		return false, err
	}
	var living []allocation
	filter := fmt.Sprintf(`NodeID == %q and ClientStatus != "complete" and ClientStatus != "failed" and ClientStatus != "lost"`, nodeID)
	err = c.get(ctx, "/v1/allocations", url.Values{"namespace": {"*"}, "per_page": {"1"}, "filter": {filter}}, &living)
	return err == nil && len(living) == 0, err
}

// get reads from Nomad's API. Without a Nomad the target is left as it is.
func (c *Connection) get(ctx context.Context, path string, query url.Values, target any) error {
	_, err := c.getPage(ctx, path, query, target)
	return err
}

// getPage returns the token of the next page; empty for the last.
func (c *Connection) getPage(ctx context.Context, path string, query url.Values, target any) (next string, err error) {
	client, err := c.client()
	if client == nil || err != nil {
		return "", err
	}
	answer, err := client.Do(ctx, rest.Request{Method: http.MethodGet, Path: path, Query: query, MostBytes: mostBytes})
	if err != nil {
		return "", storeError(err)
	}
	if err := json.Unmarshal(answer.Body, target); err != nil {
		return "", fmt.Errorf("nomad at %s: GET %s: %w", client.Address(), path, err)
	}
	return answer.NextToken, nil
}

func isStatus(err error, status int) bool {
	var answer *rest.Error
	return errors.As(err, &answer) && answer.Status == status
}
