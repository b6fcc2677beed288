#!/usr/bin/env bash
# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0
#
# Runs the benchmarks and writes docs/benchmarks.md: a summary, machine, date, and every
# figure of one run, first of the engine, and then of the pools of allocnet-ipam; and a plot,
# docs/growth.svg. With the argument "pools" or "span" it runs those of the pools, or of networks
# that span hosts, alone, and leaves what is written of the others.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(mktemp) rows=$(mktemp)
trap 'rm -f "$out" "$rows" docs/benchmarks.md.new' EXIT
load=$(cut -d' ' -f1 /proc/loadavg)

# run writes the figures of benchmarks into rows of a table.
run() {
	go test -timeout 60m -run '^$' "$@" | tee "$out"
	awk '/^Benchmark/ {
		name = $1; sub(/^Benchmark/, "", name); sub(/-[0-9]+$/, "", name)
		for (i = 3; i < NF; i += 2) if ($(i + 1) != "ns/op" || $i > 0) printf "| %s | %s | %s |\n", name, $(i + 1), $i
	}' "$out" >"$rows"
}

machine() {
	printf '%s, %s cores of %s, Linux %s, %s, load %s at the start.\n' "$(date +%F)" "$(nproc)" \
		"$(awk -F ': ' '/^model name/ { print $2; exit }' /proc/cpuinfo)" "$(uname -r | cut -d- -f1)" "$(go env GOVERSION)" "$load"
}

table() {
	printf '\n| benchmark | figure | value |\n| --- | --- | ---: |\n'
	cat "$rows"
}

engine() {
	ALLOCNET_PLOT=$PWD/docs/growth.svg run -bench . -benchtime "${BENCHTIME:-20x}" ./e2e ./state
	{
		sed '/^## Summary/q' docs/benchmarks.md
		awk -f e2e/benchmarks.awk "$rows"
		printf '\n## This run\n\n'
		machine
		[ -z "${MULTUS_BIN:-}" ] || printf 'With %s.\n' "$("$MULTUS_BIN" --version)"
		[ -z "${NETAVARK_BIN:-}" ] || printf 'With %s.\n' "$("$NETAVARK_BIN" --version)"
		table
		printf '\n'
		sed -n '/^## Pools/,$p' docs/benchmarks.md
	} >docs/benchmarks.md.new
	mv docs/benchmarks.md.new docs/benchmarks.md
}

pools() {
	run -p 1 -bench '^BenchmarkIPAM' -benchtime "${BENCHTIME:-100x}" ./internal/inprocess/ipam ./e2e/pools
	{
		sed '/^## Pools/,$d' docs/benchmarks.md
		printf '## Pools of allocnet-ipam\n\n'
		machine
		awk -f e2e/pools/benchmarks.awk "$rows"
		table
		printf '\n'
		sed -n '/^## Networks that span hosts/,$p' docs/benchmarks.md
	} >docs/benchmarks.md.new
	mv docs/benchmarks.md.new docs/benchmarks.md
}

span() {
	run -p 1 -bench '^BenchmarkSpan' -benchtime 1x ./e2e/pools ./e2e/span
	{
		sed '/^## Networks that span hosts/,$d' docs/benchmarks.md
		printf '## Networks that span hosts\n\n'
		machine
		awk -f e2e/pools/span.awk "$rows"
		table
	} >docs/benchmarks.md.new
	mv docs/benchmarks.md.new docs/benchmarks.md
}

case "${1:-}" in
span) span ;;
pools) pools ;;
*)
	engine
	pools
	;;
esac
