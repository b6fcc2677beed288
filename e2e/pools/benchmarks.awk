# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0
#
# Makes the summary of the pools in docs/benchmarks.md from the rows of their table. "-" is a
# figure that the run does not have.

BEGIN { FS = " *[|] *" }

{ figure[$2, $3] = $4 }

function value(name, key, form) { return (name, key) in figure ? sprintf(form, figure[name, key]) : "-" }

# others joins the ratios beside no other lease and beside 1,000.
function others(name, key) { return value(name "/others=0", key, "%.2f") ", " value(name "/others=1000", key, "%.2f") }

# latency joins the median and the 99th percentile.
function latency(name, key) { return value(name, key "-ms", "%.1f") ", " value(name, key "-p99-ms", "%.0f") }

function line(what, got, goal) { printf "| %s | %s | %s |\n", what, got, goal }

# design tells of a design what a start takes, and the Raft writes of a start and a stop.
function design(what, key, name) {
	name = "IPAMServers/variable=" key
	printf "| %s | %s | %s | %s |\n", what, latency(name, "add"), value(name, "raft-writes/add", "%.2f"), value(name, "raft-writes/del", "%.2f")
}

END {
	print "\n| | value | goal |\n| --- | ---: | --- |"
	line("ADD and DEL to host-local, programs, beside 0 and 1,000 leases", others("IPAMPrograms", "add+del/host-local"), "1.3")
	line("the same, CPU time", others("IPAMPrograms", "add+del-cpu/host-local"), "none")
	line("the same in one process, with host-local's library", others("IPAMInProcess", "add+del/host-local"), "1.3")
	line("VERSION, ms", value("IPAMPrograms/others=0", "allocnet-ipam-version-ms", "%.1f"), "5")
	line("ADD that claims a block, ms, median and 99th percentile", latency("IPAMServers/claim", "later"), "none")
	line("the same, the first one of a host", latency("IPAMServers/claim", "first"), "none")
	line("Raft writes of 1,000 allocations that stop and start, of nodes with blocks", value("IPAMServers/nodes=50", "steady-raft-writes/1000", "%d"), "0")
	line("Raft writes of 50 fresh nodes that start 1,000 allocations", value("IPAMServers/nodes=50", "fresh-raft-writes", "%d"), "60")
	print "\n| 10 hosts that start and stop allocations at a time | start, ms, median and 99th percentile | Raft writes of a start | of a stop |"
	print "| --- | ---: | ---: | ---: |"
	design("one variable for the pool, compared and set", "pool")
	design("a variable for each address", "address")
	design("a variable for each block of 64: allocnet-ipam", "block")
}
