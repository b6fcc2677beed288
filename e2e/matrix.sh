#!/usr/bin/env bash
# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0

# matrix.sh VERSION... runs the tests with each version of the CNI plugins, and writes into
# docs/nomad.md what works with it. The results of versions that it does not run again
# remain in build/matrix. It fails if a test fails, after all versions.
set -uo pipefail
cd "$(dirname "$0")/.."
mkdir -p build/matrix
code=0
for version; do
	json=$PWD/build/matrix/cni-$version.json
	echo "CNI plugins $version"
	make -s test-cni VERSION="$version" JSON="$json.new" || code=1
	[ ! -s "$json.new" ] || mv "$json.new" "$json"
	grep -h '"Action":"fail"' "$json" | grep -o '"Test":"[^"]*"' | sort -u
done
go run ./e2e/matrix docs/nomad.md build/matrix || code=1
exit $code
