#!/usr/bin/env bash
# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0

# phase.sh NAME COMMAND... runs a command, and prints how long it took, and the CPU time, user and system, of all
# processes that were waited for.
set -uo pipefail
name=$1
shift
printf '== %s\n' "$name"
began=$(date +%s)
exec 3>&1 4>&2
cpu=$({ TIMEFORMAT='%0U + %0S'; time "$@" >&3 2>&4 3>&- 4>&-; } 2>&1)
code=$?
printf '== %s: %d s, %s s of CPU, %s\n' "$name" $(($(date +%s) - began)) "$cpu" "$([ $code = 0 ] && echo passed || echo "failed with exit code $code")"
exit $code
