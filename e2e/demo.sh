#!/usr/bin/env bash
# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0
#
# Shows allocnet's main job for real, in network, mount and PID namespaces of
# its own: the machine's network, /run and /var/lib are not touched.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd -P) # a link to what is hidden leads nowhere

if [ "${1:-}" != inside ]; then
	[ "$(id -u)" = 0 ] || exec sudo "$0" "$@"
	exec unshare --net --mount --pid --fork --kill-child --mount-proc "$0" inside
fi

mount --make-rprivate /
cd "$root" # it may be below what is hidden
printf init >/proc/self/comm # a host is known by the name of its process 1
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
if [ ! -e "$root" ]; then
	mkdir -p "$root"
	mount --no-canonicalize --rbind /proc/self/cwd "$root"
fi
mount -t sysfs sysfs /sys
mkdir -p /run/etc/upper/netns /run/etc/work
mount -t overlay overlay -o lowerdir=/etc,upperdir=/run/etc/upper,workdir=/run/etc/work /etc
mount -t tmpfs tmpfs /etc/netns # without what the machine has there
while IFS= read -r variable; do unset "$variable"; done < <(compgen -e | grep -E '^(ALLOCNET|CNI|NOMAD)_')
ip link set lo up
ip link add uplink type veth peer name wire
ip link set uplink up
ip link set wire up
mkdir -p /run/demo/conf
cp "$root"/dist/conf/*.conflist /run/demo/conf/
export PATH="$root/build/bin:$root/build/demo:$PATH"
export ALLOCNET_CONF_DIR=/run/demo/conf ALLOCNET_PLUGIN_DIR=/run/demo/none # allocnet does the work of the plugins

bold='' cyan='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\033[1m' cyan=$'\033[36m' plain=$'\033[0m'; fi
say() { printf '\n%s# %s%s\n' "$bold" "$*" "$plain"; }
run() { printf '%s$ %s%s\n' "$cyan" "$*" "$plain"; "$@"; }
host() { # what allocnet and the plugins could leave behind
	ip -o link | sed -E 's/^[0-9]+: ([^:@]+).*/link \1/' | sort
	iptables-save | grep -v '^#' | sed -E 's/\[[0-9]+:[0-9]+\]//'
	find /run/netns /var/lib -type f ! -name 'last_reserved_ip.*' 2>/dev/null | sort
}

# Bridges and shared chains stay once they were made: make them before looking.
allocnet run --primary web --networks storage,vlan --publish 8080:80/tcp -- true
host >/run/demo/before

say "Three networks on this host, each a CNI conflist"
run allocnet networks

say "Attach allocation web-1: web with a published port, and two more"
run allocnet attach web-1 --primary web --networks storage,vlan@data0 --publish 8080:80/tcp

say "What the allocation sees"
run ip -n web-1 -brief -4 addr
run ip -n web-1 route show default

say "A web server inside, asked through the port published on the host"
ip netns exec web-1 web serve "Hello from web-1" &
server=$!
run web get http://127.0.0.1:8080/

say "A second allocation reaches it over the storage network alone"
address=$(allocnet status web-1 --json | grep -o '10\.89\.[0-9]*\.[0-9]*' | head -n 1)
run allocnet run --networks storage -- web get "http://$address/"

say "All is as it was set up"
run allocnet check web-1

say "Take it down"
kill "$server"
wait "$server" 2>/dev/null || true
run allocnet detach web-1
run allocnet status

say "Another one, whose namespace another program removes: its rules and addresses stay"
allocnet attach web-2 --primary web --networks storage --publish 8081:80/tcp >/dev/null
run ip netns delete web-2
run allocnet doctor || true

say "Collect what dead allocations left"
run allocnet gc

say "Is anything left on the host?"
host >/run/demo/after
diff /run/demo/before /run/demo/after
echo "Nothing: links, rules, leases, caches, namespaces and records are as before."
