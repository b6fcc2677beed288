#!/usr/bin/env bash
# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0
#
# difference.sh BASE BENCHSTAT compares the times of allocnet-cni in BenchmarkPeers at another commit and here. Both are measured in
# turn, so what else the machine does meanwhile changes both.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'git worktree remove --force "$dir/base"; rm -rf "$dir"' EXIT
git worktree add --quiet --detach "$dir/base" "$1"
mkdir "$dir/base/build"
ln -s "$PWD/build/cni" "$dir/base/build/cni"
for _ in {1..6}; do # the least number whose difference can be significant is four
	for side in base change; do
		tree=$PWD
		[ "$side" = change ] || tree=$dir/base
		(cd "$tree" && go test -vet=off -timeout 60m -run '^$' -bench '^BenchmarkPeers$/^nftables$' -benchtime 5x ./e2e) |
			grep '^Benchmark' >>"$dir/$side.txt"
	done
done
"$2" -filter '.unit:/^(allocnet|by-agent)-(add|del)-(cpu-)?ms$/' "base=$dir/base.txt" "change=$dir/change.txt"
