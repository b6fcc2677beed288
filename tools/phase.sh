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
exec {out}>&1 {err}>&2 # no number that the command has of its caller, as that of the job server of make
cpu=$({ TIMEFORMAT='%0U + %0S'; time "$@" >&"$out" 2>&"$err" {out}>&- {err}>&-; } 2>&1)
code=$?
printf '== %s: %d s, %s s of CPU, %s\n' "$name" $(($(date +%s) - began)) "$cpu" "$([ $code = 0 ] && echo passed || echo "failed with exit code $code")"
exit $code
