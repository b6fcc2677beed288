// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/allocnet/allocnet/agent/api"
)

const perPage = 1000

type allocationsPage struct {
	Query       string
	Allocations []*api.Allocation
	// Damaged are those that lack something of what was made for them.
	Damaged map[string]bool
	// Found of All are selected by the query.
	Found, All int
	// Before and After are the numbers of other pages. 0: there is none.
	Before, After int
}

func (s *Server) allocations(ctx context.Context, r *http.Request) (content, error) {
	var all []*api.Allocation
	var err error
	var repair part[*api.Repair]
	var group sync.WaitGroup
	group.Go(func() { all, err = s.config.Agent.Allocations(ctx) })
	group.Go(func() { repair = ask(ctx, s.config.Agent.Repair) })
	group.Wait()
	if err != nil {
		return content{}, err
	}
	query := r.URL.Query().Get("q")
	p := allocationsPage{Query: query, All: len(all), Damaged: damagedIDs(repair)}
	found := search(all, query, p.Damaged)
	p.Found = len(found)
	p.cut(found, r.URL.Query().Get("page"))
	return content{"allocations", "Allocations", p}, nil
}

// cut selects a part of a list by its number.
func (p *allocationsPage) cut(found []*api.Allocation, number string) {
	last := max(1, (len(found)+perPage-1)/perPage)
	n, err := strconv.Atoi(number)
	if n = min(max(n, 1), last); err != nil {
		n = 1
	}
	p.Before = n - 1
	if n < last {
		p.After = n + 1
	}
	begin := (n - 1) * perPage
	p.Allocations = found[begin:min(begin+perPage, len(found))]
}

func search(all []*api.Allocation, query string, damaged map[string]bool) []*api.Allocation {
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(a *api.Allocation) bool {
		text := searchable(a)
		if damaged[a.ID] {
			text += "\ndrift"
		}
		return slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
	})
}

// searchable is what a search looks at, in lower case.
func searchable(a *api.Allocation) string {
	texts := []string{a.ID, a.Identity.Namespace, a.Identity.Job, a.Identity.Group, a.Owner, a.Error}
	for _, n := range a.Attachments {
		texts = append(texts, n.Network, n.Interface, n.Task, n.MAC, string(n.Phase))
		for _, address := range n.Addresses {
			texts = append(texts, address.String())
		}
		for _, p := range n.Ports {
			texts = append(texts, fmt.Sprintf("%s/%s", p.HostPorts(), p.Protocol))
		}
	}
	return strings.ToLower(strings.Join(texts, "\n"))
}
