#!/bin/sh
# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0

# Refuses the removal of the package, before anything is removed, while allocations are attached: no other program takes
# their networks down, or gives their addresses back. ALLOCNET_REMOVE in the environment says what to do instead.
set -eu

refuse() {
	echo "allocnet is not removed: $1" >&2
	shift
	printf '%s\n' "$@" "Detach them with \"allocnet detach --all\", after a drain of the node and a stop of services, and repeat the removal;" \
		"or repeat it with ALLOCNET_REMOVE=detach in its environment, which does both but for the drain, or with" \
		"ALLOCNET_REMOVE=keep, which leaves them as they are for a later installation." \
		"See /usr/share/doc/allocnet/docs/uninstall.md" >&2
	exit 1
}

case ${ALLOCNET_REMOVE-} in
keep) exit 0 ;;
detach)
	# These services would run on without their networks.
	if [ -d /run/systemd/system ]; then
		systemctl stop 'allocnet@*.service'
		/usr/bin/allocnet status -q | while read -r id; do # and those of "allocnet systemd-run"
			case $(systemctl show --property ExecStopPost --value -- "$id.service") in
			*" /usr/bin/allocnet detach $id "*) systemctl stop -- "$id.service" ;;
			esac
		done
	fi
	/usr/bin/allocnet detach --all >&2 || refuse "an allocation cannot be detached."
	;;
"") ;;
*)
	echo "allocnet is not removed: ALLOCNET_REMOVE is \"$ALLOCNET_REMOVE\", want detach, keep, or no such variable" >&2
	exit 1
	;;
esac

# A record that cannot be read may be one of an attached allocation.
attached=$(/usr/bin/allocnet status -q) || refuse "its records cannot be read."
if [ -n "$attached" ]; then
	refuse "these allocations are attached:" "$attached"
fi

# The daemon for DHCP, if it was enabled, would run on without its units.
if [ -d /run/systemd/system ]; then
	systemctl stop allocnet-cni-dhcp.socket allocnet-cni-dhcp.service
fi
