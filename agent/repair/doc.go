// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package repair keeps the attachments of a host as they were set up: it has the engine compare
// them with what is there when the kernel tells that something was removed, and at an interval for
// what it does not tell. An event only makes a round sooner, and a round is never skipped for the
// lack of one. What is added makes no round, so neither set-ups nor repairs do.
//
// One socket hears of all namespaces (NETLINK_LISTEN_ALL_NSID): a socket in each would keep dead
// ones alive. After the changes of a transaction of nftables comes a message with its thread, so
// who has removed rules of a chain that lacks some is known, and not guessed from the programs
// that run.
//
// Each allocation has a series of repairs with its own pauses, because one that another program
// keeps damaging must not delay the others. Plugins that allocnet does not know, and networks that
// are attached again, have their own calls beside the rounds: they may take minutes.
package repair
