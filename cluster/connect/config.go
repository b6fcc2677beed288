// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package connect

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/allocnet/allocnet/cluster/rest"
	"github.com/allocnet/allocnet/internal/hclfile"
)

// Nomad is the block nomad: the Nomad agent on this host.
type Nomad struct {
	// Address is the Nomad agent's. Empty: http://127.0.0.1:4646.
	Address string `hcl:"address,optional"`
	// TokenFile holds the ACL token; it is read anew for each request. Empty:
	// none.
	TokenFile string `hcl:"token_file,optional"`
	CAFile    string `hcl:"ca_file,optional"`
	CertFile  string `hcl:"cert_file,optional"`
	KeyFile   string `hcl:"key_file,optional"`
	TLSName   string `hcl:"tls_server_name,optional"`
	// NodeID is this host's. Empty: the Nomad agent is asked.
	NodeID string `hcl:"node_id,optional"`
	// Metadata publishes the networks as node metadata.
	Metadata bool `hcl:"metadata,optional"`
	// Events sends blocking queries, so that the end of an allocation is known within
	// seconds.
	Events bool `hcl:"events,optional"`
	// JobNetworks reads networks from further network blocks and group meta.
	JobNetworks bool `hcl:"job_networks,optional"`
}

func (n Nomad) rest(region string) (*rest.Client, error) {
	return rest.New(rest.Config{
		Address: n.Address, TokenFile: n.TokenFile, CAFile: n.CAFile, CertFile: n.CertFile, KeyFile: n.KeyFile, TLSName: n.TLSName, Region: region,
	})
}

// IPAM configures the store of allocnet-ipam, and what the agent does for its pools.
type IPAM struct {
	// Store is "nomad" for pools that all hosts of a Nomad region share, with the
	// connection of the block nomad, or "file" for pools of this host. Empty: nomad.
	Store string
	// Namespace is the Nomad namespace of the variables. Empty: default.
	Namespace string
	// Region is the Nomad region of the variables. Empty: that of the Nomad agent.
	Region string
	// Reclaim is "auto", or "manual" to leave the blocks of nodes that are gone to
	// allocnet ipam release. Empty: auto.
	Reclaim string
	// Grace is the time for which a node has to be gone before its blocks are reclaimed.
	// 0: one hour.
	Grace time.Duration
	// Fence is the time without verification of the blocks after which no new address is
	// assigned. 0: 20 hours.
	Fence time.Duration
}

// IPAMBlock is the block ipam in HCL.
type IPAMBlock struct {
	Store     hcl.Expression `hcl:"store,optional"`
	Namespace hcl.Expression `hcl:"namespace,optional"`
	Region    hcl.Expression `hcl:"region,optional"`
	Reclaim   hcl.Expression `hcl:"reclaim,optional"`
	Grace     hcl.Expression `hcl:"grace,optional"`
	Fence     hcl.Expression `hcl:"fence,optional"`
}

// nodeRetention is the time for which Nomad keeps a node that is down, unless configured
// (node_gc_threshold of its servers): a node is not reclaimed earlier.
const nodeRetention = 24 * time.Hour

// Read checks the block's values; nil for a missing block.
func (b *IPAMBlock) Read(v *hclfile.Values) *IPAM {
	if b == nil {
		return nil
	}
	i := &IPAM{
		Store: v.OneOf(b.Store, "nomad", "file"), Namespace: v.Name(b.Namespace), Region: v.Name(b.Region),
		Reclaim: v.OneOf(b.Reclaim, "auto", "manual"), Grace: v.Duration(b.Grace), Fence: v.Duration(b.Fence),
	}
	if i.Store == "file" {
		v.Unset("with store = \"file\" there is none", b.Namespace, b.Region)
	}
	if limit := nodeRetention + cmp.Or(i.Grace, time.Hour); i.Fence >= limit {
		v.Fault(b.Fence.Range(), strconv.Quote(i.Fence.String()), fmt.Sprintf("want less than %s, which is 24h and grace: a node that is gone for longer may have lost its blocks", limit))
	}
	return i
}

type blocks struct {
	// Nomad and IPAM are nil if they are missing.
	Nomad *Nomad
	IPAM  *IPAM
}

func (b blocks) hasStore() bool { return b.IPAM != nil && b.IPAM.Store != "file" }

// load reads the blocks from a file, or from the .hcl files of a directory. A missing path has
// none.
func load(path string) (blocks, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return blocks{}, nil
	}
	body, err := hclfile.Load(path)
	if err != nil {
		return blocks{}, err
	}
	var v hclfile.Values
	var read blocks
	if block := v.Block(body, "nomad"); block != nil {
		read.Nomad = &Nomad{}
		v.Decode(block, read.Nomad)
	}
	if block := v.Block(body, "ipam"); block != nil {
		var b IPAMBlock
		v.Decode(block, &b)
		read.IPAM = b.Read(&v)
	}
	return read, v.Err()
}
