// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package hosts keeps a file in the shared directory of each Nomad allocation that names the others of its networks, in the form of
// hosts(5): JOB-INDEX.NETWORK.
//
// An allocation finds there its own namespace of Nomad alone, on the networks that it is on itself. Who may submit jobs to a namespace decides
// which jobs it has, and a job's ID is unique in it: so no job of another namespace has a name there. Within one, an ID that is
// no label of a host name gets a hash, so that no two IDs are one name.
//
// It also keeps the files with the attachments of an allocation itself, which servers of DHCP and routers give other addresses.
//
// The file is of use and not a condition: attaching does not wait for it, and what cannot be written is tried again.
package hosts
