# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0
#
# Makes the summary of docs/benchmarks.md from the rows of its table. "-" is a figure that the
# run does not have.

BEGIN { FS = " *[|] *" }

{ figure[$2, $3] = $4 }

function ratio(name, key) { return (name, key) in figure ? sprintf("%.2f", figure[name, key]) : "-" }

# each joins the ratios for 1, 3 and 5 networks.
function each(backend, key) {
	return ratio("Peers/" backend "/k=1", key) ", " ratio("Peers/" backend "/k=3", key) ", " ratio("Peers/" backend "/k=5", key)
}

# range is the least and the greatest value of a figure of all peers.
function range(key, pair, part, least, most) {
	for (pair in figure) {
		split(pair, part, SUBSEP)
		if (part[1] !~ /^Peers/ || part[2] != key) continue
		if (least == "" || figure[pair] + 0 < least) least = figure[pair] + 0
		if (figure[pair] + 0 > most) most = figure[pair] + 0
	}
	return least == "" ? "-" : sprintf("%.1f to %.1f", least, most)
}

function line(what, add, del, goal) { printf "| %s | %s | %s | %s |\n", what, add, del, goal }

END {
	print "\nRatios of the run below, `allocnet-cni` to its peers, and the goals:\n"
	print "| | ADD | DEL | goal |\n| --- | ---: | ---: | --- |"
	line("5 networks, iptables, to Multus", ratio("Peers/iptables/k=5", "add/multus"), ratio("Peers/iptables/k=5", "del/multus"), "0.15")
	line("5 networks, nftables, to Multus", ratio("Peers/nftables/k=5", "add/multus"), ratio("Peers/nftables/k=5", "del/multus"), "0.12")
	line("1, 3, 5 networks, iptables, to netavark", each("iptables", "add/netavark"), each("iptables", "del/netavark"), "none")
	line("1, 3, 5 networks, nftables, to netavark", each("nftables", "add/netavark"), each("nftables", "del/netavark"), "ADD 0.5; DEL 0.7, 0.45, 0.45")
	line("beside 1,000 others, iptables, to none", ratio("Growth/iptables/others=1000", "add/first"), ratio("Growth/iptables/others=1000", "del/first"), "2.5")
	line("beside 1,000 others, nftables, to none", ratio("Growth/nftables/others=1000", "add/first"), ratio("Growth/nftables/others=1000", "del/first"), "1.5")
	line("own time, ms", range("allocnet-own-add-ms"), range("allocnet-own-del-ms"), "4")
	line("1,000 allocations of 3 networks, 16 at a time, s", ratio("AtOnce/allocations=1000/width=16", "allocnet-add-s"), ratio("AtOnce/allocations=1000/width=16", "allocnet-del-s"), "ADD 30")
}
