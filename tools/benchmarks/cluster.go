// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import "fmt"

// pools is allocnet-ipam on one host, and what it writes.
func pools(r results) string {
	beside := func(name, unit string) string {
		return r.text("%.2f", name+"/others=0", unit) + ", " + r.text("%.2f", name+"/others=1000", unit)
	}
	return table([]string{"", ""}, [][]string{
		{"ADD and DEL to `host-local`, programs, beside 0 and 1,000 leases", beside("IPAMPrograms", "add+del/host-local")},
		{"the same, CPU time", beside("IPAMPrograms", "add+del-cpu/host-local")},
		{"the same in one process, with the library of `host-local`", beside("IPAMInProcess", "add+del/host-local")},
		{"VERSION, ms", r.text("%.1f", "IPAMPrograms/others=0", "allocnet-ipam-version-ms")},
		{"ADD that claims a block, ms, median and 99th percentile", latency(r, "IPAMServers/claim", "later")},
		{"the same, the first one of a host", latency(r, "IPAMServers/claim", "first")},
		{"Raft writes of 1,000 allocations that stop and start, of nodes with blocks", r.text("%.0f", "IPAMServers/nodes=50", "steady-raft-writes/1000")},
		{"Raft writes of 50 fresh nodes that start 1,000 allocations", r.text("%.0f", "IPAMServers/nodes=50", "fresh-raft-writes")},
	}) + "\n" + r.measured("IPAMServers")
}

// latency joins the median and the 99th percentile.
func latency(r results, name, key string) string {
	return r.text("%.1f", name, key+"-ms") + ", " + r.text("%.0f", name, key+"-p99-ms")
}

// designs compares pools with other designs.
func designs(r results) string {
	var rows [][]string
	for _, d := range []struct{ key, text string }{
		{"pool", "one variable for the pool, compared and set"}, {"address", "a variable for each address"}, {"block", "a variable for each block of 64: allocnet-ipam"},
	} {
		name := "IPAMServers/variable=" + d.key
		rows = append(rows, []string{d.text, latency(r, name, "add"), r.text("%.2f", name, "raft-writes/add"), r.text("%.2f", name, "raft-writes/del")})
	}
	return table([]string{"10 hosts that start and stop allocations at a time", "start, ms, median and 99th percentile", "Raft writes of a start", "of a stop"}, rows)
}

// span is what hosts need to follow the blocks of all.
func span(r results) string {
	var hosts, listings [][]string
	for _, n := range []int{50, 200} {
		name := fmt.Sprintf("Span/hosts=%d", n)
		hosts = append(hosts, []string{
			fmt.Sprint(n), r.text("%.0f", name, "known-ms") + ", " + r.text("%.0f", name, "known-p99-ms"), r.text("%.1f", name, "change-requests/host/change"),
			r.text("%.1f", name, "change-KiB/host/change"), r.text("%.1f", name, "change-cpu-ms/host/change"), r.text("%.0f", name, "KiB/host"),
		})
	}
	block, _ := r.get("Span/listing", "agents-B/block")
	for _, n := range []int{200, 1000, 5000} {
		bytes := block * float64(n*5)
		listings = append(listings, []string{fmt.Sprint(n), fmt.Sprint(n * 5), fmt.Sprintf("%.2f", bytes/1e6), fmt.Sprintf("%.2f", bytes*float64(n)/1e9)})
	}
	return table([]string{
		"hosts, with 5 blocks each", "a new block is known, ms, median and 99th percentile", "requests of a host", "KiB that the servers send it",
		"CPU time of a host, ms", "memory of a host, KiB",
	}, hosts) + "\n" + table([]string{"hosts", "blocks", "listing for one node, MB", "for all nodes, GB"}, listings) + "\n" + r.measured("Span")
}

// paths compares ways between allocations of two hosts with a plain route.
func paths(r results) string {
	var rows [][]string
	for _, p := range []struct{ name, text string }{
		{"hostgw", "bridges with a route and rules as those of flannel, made manually"}, {"routed-ptp", "`routed`, ptp"}, {"routed-bridge", "`routed`, bridge"},
		{"vxlan-ptp", "`vxlan`, ptp"}, {"vxlan-bridge", "`vxlan`, bridge"},
	} {
		rows = append(rows, []string{p.text, r.text("%.2f", "SpanPaths", p.name+"-throughput/plain"), r.text("%.2f", "SpanPaths", p.name+"-latency/plain")})
	}
	return table([]string{"between allocations of two hosts on one link, to a plain route", "throughput", "latency"}, rows) + "\n" + r.measured("SpanPaths")
}
