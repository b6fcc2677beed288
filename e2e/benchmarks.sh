#!/usr/bin/env bash
# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0
#
# benchmarks.sh [NAME...] runs benchmarks, all without a name, one after the other; puts their rows with their conditions into
# docs/benchmarks.txt, in place of those of an earlier run; and has the tables and pictures of docs/benchmarks.md made of them.
set -euo pipefail
cd "$(dirname "$0")/.."
rows=docs/benchmarks.txt

# What is measured: the benchmark, its package, and how often or for how long it runs.
measured="Networks ./e2e 20x
Peers ./e2e 20x
Left ./e2e 20x
Growth ./e2e 20x
AtOnce ./e2e 1x
Isolation ./e2e 1x
IsolationTraffic ./e2e 1x
GC ./e2e 1x
FirstSetupOfABoot ./e2e 20x
Footprint ./e2e 20x
Begin ./state 20x
IPAMInProcess ./internal/inprocess/ipam 100x
IPAMPrograms ./e2e/pools 100x
IPAMServers ./e2e/pools 100x
Span ./e2e/pools 1x
SpanPaths ./e2e/span 1x"

machine() {
	printf '%s cores of %s, Linux %s, %s' "$(nproc)" "$(awk -F ': ' '/^model name/ { print $2; exit }' /proc/cpuinfo)" \
		"$(uname -r | cut -d- -f1)" "$(go env GOVERSION)"
}

with() {
	[ -z "${NETAVARK_BIN:-}" ] || "$NETAVARK_BIN" --version
	[ -z "${MULTUS_BIN:-}" ] || "$MULTUS_BIN" --version
}

# measure runs one benchmark.
measure() {
	printf 'part: %s\ndate: %s\nmachine: %s\nload: %s\n' "$1" "$(date +%F)" "$(machine)" "$(cut -d' ' -f1 /proc/loadavg)"
	if [ "$1" = Peers ]; then with | paste -sd , | sed 's/,/, /; s/^/with: /'; fi
	go test -vet=off -timeout 60m -run '^$' -bench "^Benchmark$1\$" -benchtime "${BENCHTIME:-$3}" "$2" | tee /dev/stderr | grep '^Benchmark'
}

# replace puts a part in place of that of an earlier run.
replace() {
	awk -v part="$1" '/^part: / { skip = $2 == part } !skip' "$rows" >"$rows.new"
	cat "$2" >>"$rows.new"
	mv "$rows.new" "$rows"
}

new=$(mktemp)
trap 'rm -f "$new"' EXIT
while read -r name package time; do
	if [ $# = 0 ] || [[ " $* " == *" $name "* ]]; then
		measure "$name" "$package" "$time" >"$new"
		replace "$name" "$new"
	fi
done <<<"$measured"
go run ./tools/benchmarks docs
