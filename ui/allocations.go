// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/internal/texts"
)

const perPage = 100

type allocationsPage struct {
	Query string
	// Order is that of the list: a key of orders.
	Order       string
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
	p := allocationsPage{Query: query, Order: r.URL.Query().Get("order"), All: len(all), Damaged: damagedIDs(repair)}
	if orders[p.Order] == nil {
		p.Order = defaultOrder
	}
	found := slices.SortedStableFunc(slices.Values(search(all, query, p.Damaged)), func(a, b *api.Allocation) int { return orders[p.Order](p.Damaged, a, b) })
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

// defaultOrder has first what needs a person.
const defaultOrder = "state"

// orders compare allocations, of which some lack something. The rest of an order is that of their IDs.
var orders = map[string]func(damaged map[string]bool, a, b *api.Allocation) int{
	defaultOrder: func(damaged map[string]bool, a, b *api.Allocation) int {
		return cmp.Compare(severity(a, damaged), severity(b, damaged))
	},
	"id": func(map[string]bool, *api.Allocation, *api.Allocation) int { return 0 },
	"job": func(_ map[string]bool, a, b *api.Allocation) int {
		return cmp.Or(cmp.Compare(a.Identity.Namespace, b.Identity.Namespace), cmp.Compare(a.Identity.Job, b.Identity.Job), cmp.Compare(a.Identity.Group, b.Identity.Group))
	},
	"created": func(_ map[string]bool, a, b *api.Allocation) int { return b.Created.Compare(a.Created) },
}

// severity is 0 for what is broken, 1 for what changes, and 2 for the rest.
func severity(a *api.Allocation, damaged map[string]bool) int {
	least := 2
	if a.Error != "" || len(a.Damaged) > 0 || damaged[a.ID] {
		return 0
	}
	for _, n := range a.Attachments {
		switch {
		case n.Error != "" || n.Missing != "" || n.Phase == "pending":
			return 0
		case n.Phase != "attached":
			least = 1
		}
	}
	return least
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
		if severity(a, damaged) == 0 {
			text += "\nbroken"
		}
		return slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
	})
}

// searchable is what a search looks at, in lower case.
func searchable(a *api.Allocation) string {
	words := []string{a.ID, a.Identity.Namespace, a.Identity.Job, a.Identity.Group, a.Owner, a.Error}
	for _, n := range a.Attachments {
		words = append(words, n.Network, n.Interface, n.Task, n.MAC, string(n.Phase))
		words = append(words, texts.Of(n.Addresses)...)
		for _, p := range n.Ports {
			words = append(words, fmt.Sprintf("%s/%s", p.HostPorts(), p.Protocol))
		}
	}
	return strings.ToLower(strings.Join(words, "\n"))
}
