# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0
#
# Makes the summary of networks that span hosts in docs/benchmarks.md from the rows of their
# table. "-" is a figure that the run does not have.

BEGIN { FS = " *[|] *" }

{ figure[$2, $3] = $4 }

function value(name, key, form) { return (name, key) in figure ? sprintf(form, figure[name, key]) : "-" }

# size tells of a cluster what one changed block takes.
function size(hosts, name) {
	name = "Span/hosts=" hosts
	printf "| %s | %s, %s | %s | %s | %s | %s |\n", hosts, value(name, "known-ms", "%d"), value(name, "known-p99-ms", "%d"),
		value(name, "change-requests/host/change", "%.1f"), value(name, "change-KiB/host/change", "%.1f"),
		value(name, "change-cpu-ms/host/change", "%.1f"), value(name, "KiB/host", "%d")
}

# listed tells of a cluster what one changed block makes the servers send to the Nomad agents of
# the nodes: a listing of all blocks to each.
function listed(hosts, blocks, bytes) {
	blocks = hosts * 5
	bytes = figure["Span/listing", "agents-B/block"] * blocks
	printf "| %d | %d | %.2f | %.2f |\n", hosts, blocks, bytes / 1e6, bytes * hosts / 1e9
}

# way compares one between allocations of two hosts with a plain route.
function way(text, name) {
	printf "| %s | %s | %s |\n", text, value("SpanPaths", name "-throughput/plain", "%.2f"), value("SpanPaths", name "-latency/plain", "%.2f")
}

END {
	print "\n| hosts, with 5 blocks each | a new block is known, ms, median and 99th percentile | requests of a host | KiB that the servers send it | CPU time of a host, ms | memory of a host, KiB |"
	print "| ---: | ---: | ---: | ---: | ---: | ---: |"
	size(50)
	size(200)
	print "\n| hosts | blocks | listing for one node, MB | for all nodes, GB |\n| ---: | ---: | ---: | ---: |"
	listed(200)
	listed(1000)
	listed(5000)
	print "\n| between allocations of two hosts on one link | throughput | latency |\n| --- | ---: | ---: |"
	way("bridges with a route and rules as those of flannel, made manually", "hostgw")
	way("`routed`, ptp", "routed-ptp")
	way("`routed`, bridge", "routed-bridge")
	way("`vxlan`, ptp", "vxlan-ptp")
	way("`vxlan`, bridge", "vxlan-bridge")
}
