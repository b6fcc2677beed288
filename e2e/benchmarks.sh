#!/usr/bin/env bash
# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0
#
# Runs the benchmarks and writes docs/benchmarks.md: a summary, machine, date, and
# every figure of one run; and a plot, docs/growth.svg.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(mktemp) rows=$(mktemp)
trap 'rm -f "$out" "$rows"' EXIT
load=$(cut -d' ' -f1 /proc/loadavg)
ALLOCNET_PLOT=$PWD/docs/growth.svg go test -timeout 60m -run '^$' -bench . -benchtime "${BENCHTIME:-20x}" ./e2e ./state | tee "$out"

awk '/^Benchmark/ {
	name = $1; sub(/^Benchmark/, "", name); sub(/-[0-9]+$/, "", name)
	for (i = 3; i < NF; i += 2) if ($(i + 1) != "ns/op" || $i > 0) printf "| %s | %s | %s |\n", name, $(i + 1), $i
}' "$out" >"$rows"
{
	sed '/^## Summary/q' docs/benchmarks.md
	awk -f e2e/benchmarks.awk "$rows"
	printf '\n## This run\n\n%s, %s cores of %s, Linux %s, %s, load %s at the start.\n' "$(date +%F)" "$(nproc)" \
		"$(awk -F ': ' '/^model name/ { print $2; exit }' /proc/cpuinfo)" "$(uname -r | cut -d- -f1)" "$(go env GOVERSION)" "$load"
	[ -z "${MULTUS_BIN:-}" ] || printf 'With %s.\n' "$("$MULTUS_BIN" --version)"
	[ -z "${NETAVARK_BIN:-}" ] || printf 'With %s.\n' "$("$NETAVARK_BIN" --version)"
	printf '\n| benchmark | figure | value |\n| --- | --- | ---: |\n'
	cat "$rows"
} >docs/benchmarks.md.new
mv docs/benchmarks.md.new docs/benchmarks.md
