// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package filter has the kernel drop what package isolation denies, and what an attachment sends as another one.
//
// The host has two tables of nftables, both named allocnet-isolation. That of family inet sees what the host routes: chains and sets
// for the rules, and elements for the attachments. That of family bridge sees what comes from the ports of bridges: a guarded end may
// only send with the MAC and the addresses of its attachment. An attach adds elements, in one transaction, and a detach removes
// them: neither takes longer for more rules or attachments. The first attachment of its kind on a host, which rules select in another way than
// those that are there, makes sets and chains, too (Complete), because rules get a set when they select an
// attachment of the host, and not before: a host knows few of the jobs of a cluster. A set that is there has all that it has to have. The
// same holds for the first attachment whose job narrows its traffic in another way: each has a chain. For each chain of rules the tables have a note of who has it
// (note.go), so that nothing on record has to be read to find those that get lines about the new one.
//
// Sources are looked up together with the interface by which they come: an address by itself can be forged.
//
// What is on a bridge and may not reach its neighbours, because its network is strict or a rule egress selects it, is apart: the bridge
// forwards nothing from it or to it, the host answers for its neighbours (proxy ARP and NDP), and routes what rules allow.
//
// A neighbour that has known another one before this became apart asks for it again when the kernel does, after seconds: what it
// sends to that MAC until then is made a frame to the bridge, which is routed as well. On a bridge with a port to other machines the host
// answers for none.
//
// Where bridges give their packets to the rules of IP (br_netfilter), those to a published port of a neighbour are translated and then
// forwarded by the bridge, not routed. Such packets get a priority by which the bridge lets them through; they have been filtered
// as packets of IP. Ports with the flag isolated would not let them through.
//
// What is dropped by rules and levels, or as forged, is looked up once more, in sets whose elements count it for attachments, and of some of it the
// kernel tells in a group of NFLOG: what passes costs nothing more.
//
// An attachment without an end on the host is kept apart in the namespace of its allocation, by the same chains and sets in two tables of family inet: of what
// comes by its interface, and of what goes by it. There all other attachments are known as those on other hosts are on this one, by the interface. These tables are always
// applied as a whole.
//
// Packets of established flows are most of all, so what they meet is short: for a frame of a guarded end two lookups, of its interface, MAC and source, and of whom it is
// for, and the state of the connection. Rules compare what they find in a packet before they look into a set, which takes as long as many comparisons, and
// first what is in few packets: each expression of a rule costs, also one that most packets match.
//
// Elements have the ID of their attachment as the comment. A host without tables has no isolation, which costs one look.
package filter
