// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"sync"

	"github.com/hashicorp/hcl/v2"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/hclfile"
)

// Table is the name of the tables of nftables in which the kernel has the rules.
const Table = "allocnet-isolation"

// DefaultFile has the rules of a host.
const DefaultFile = "/etc/allocnet/isolation.hcl"

// Load reads the rules of a host, all of them or none. Only a file that does not exist has none: one that is empty was
// truncated, and a link that leads nowhere had some. The error is an *hclfile.Error with all mistakes unless the file cannot be
// read.
func Load(file string) (Rules, error) {
	text, err := Read(file)
	if err != nil {
		return Rules{File: file}, err
	}
	return text.Rules()
}

// Text is that of a file of rules, or that there is none.
type Text struct {
	// Sum differs for each other text, and each other file.
	Sum string
	// Rules returns those of the text, as Load does. They are read once, and do not change.
	Rules func() (Rules, error)
}

// Read reads the text of the rules of a host. The error is that of Load, but for mistakes.
func Read(file string) (Text, error) {
	return recent.Read(func() string { return files.Identity(file) }, func() (Text, error) { return read(file) })
}

// recent is the file that was read last: each attach asks for it several times, and seldom has it changed.
var recent files.Kept[Text]

func read(file string) (Text, error) {
	text, err := files.Read(file)
	if errors.Is(err, fs.ErrNotExist) {
		if link := files.DanglingLink(file); link != "" {
			return Text{}, errdefs.As(errdefs.Refused, fmt.Errorf("isolation in %s: the link %s leads nowhere: correct it, or remove it if there are no rules", file, link))
		}
		return Text{"no file " + file, func() (Rules, error) { return Rules{File: file}, nil }}, nil
	}
	if err != nil {
		return Text{}, errdefs.As(errdefs.Refused, fmt.Errorf("isolation: %w", err))
	}
	sum := sha256.Sum256(text)
	return Text{hex.EncodeToString(sum[:]) + " " + file, sync.OnceValues(func() (Rules, error) { return parse(file, text) })}, nil
}

// allowBlock and egressBlock are rules in HCL.
type allowBlock struct {
	From  *selectorBlock `hcl:"from,block"`
	To    *selectorBlock `hcl:"to,block"`
	Ports hcl.Expression `hcl:"ports,optional"`
}

type egressBlock struct {
	From  *selectorBlock `hcl:"from,block"`
	To    *selectorBlock `hcl:"to,block"`
	Ports hcl.Expression `hcl:"ports,optional"`
	DNS   hcl.Expression `hcl:"dns,optional"`
}

// parse reads a text by its parts, and with a mistake as a whole, for the error.
func parse(file string, text []byte) (Rules, error) {
	if r, ok := latest.parse(file, string(text)); ok {
		return r, nil
	}
	return parseWhole(file, text)
}

func parseWhole(file string, text []byte) (Rules, error) {
	r := Rules{File: file}
	body, err := hclfile.Parse(file, text)
	if err != nil {
		return r, err
	}
	v := values{names: map[string]hcl.Range{}}
	rules := v.rules(body)
	if err := v.Err(); err != nil {
		return r, err
	}
	if len(rules) == 0 {
		return r, errdefs.As(errdefs.Refused, fmt.Errorf("isolation in %s: no rules: want blocks allow or egress, or remove the file if there are none", file))
	}
	for _, one := range rules {
		r.add(one, 0)
	}
	return r, nil
}

// rule is an Allow or an Egress.
type rule struct {
	allow  *Allow
	egress *Egress
}

// add adds a rule that is some lines further down than it was read.
func (r *Rules) add(one rule, lines int) {
	if one.allow != nil {
		a := *one.allow
		a.Line += lines
		r.Allow = append(r.Allow, a)
		return
	}
	e := *one.egress
	e.Line += lines
	r.Egress = append(r.Egress, e)
}

// rules reads the blocks of a body.
func (v *values) rules(body hcl.Body) (all []rule) {
	for _, b := range v.Labelled(body, "allow", "egress") {
		v.name(b)
		if b.Type == "allow" {
			var read allowBlock
			v.Decode(b.Body, &read)
			a := v.allow(b, &read)
			all = append(all, rule{allow: &a})
		} else {
			var read egressBlock
			v.Decode(b.Body, &read)
			e := v.egress(b, &read)
			all = append(all, rule{egress: &e})
		}
	}
	return all
}

func (v *values) allow(b *hcl.Block, read *allowBlock) Allow {
	v.require(b, "from", read.From)
	v.require(b, "to", read.To)
	a := Allow{b.Labels[0], b.DefRange.Start.Line, v.selector(read.From), v.selector(read.To), v.ports(read.Ports)}
	v.refuseHost(read.To, a.To, "want it in from of a rule allow: what goes to the host is selected by cidrs")
	if a.From.Job+a.From.Group != "" && a.From.Namespace == "" {
		v.Fault(read.From.Where, "from", `want namespace, too: who writes a job chooses its name and its groups. "*" is any`)
	}
	return a
}

// egress reads a rule that has a destination, or dns, or neither: then nothing is reached.
func (v *values) egress(b *hcl.Block, read *egressBlock) Egress {
	v.require(b, "from", read.From)
	dns, _ := hclfile.Read[bool](&v.Values, read.DNS)
	e := Egress{b.Labels[0], b.DefRange.Start.Line, v.selector(read.From), v.selector(read.To), v.ports(read.Ports), dns}
	v.refuseHost(read.From, e.From, "want attachments, by namespace, job, group or network: rules egress limit nothing else")
	v.refuseHost(read.To, e.To, "want it in from of a rule allow: what goes to the host is selected by cidrs")
	if len(e.From.CIDRs) > 0 {
		v.Fault(read.From.CIDRs.Range(), "cidrs", "want attachments, by namespace, job, group or network: rules egress limit nothing else")
	}
	if read.To != nil {
		return e
	}
	if len(e.Ports) > 0 {
		v.Fault(read.Ports.Range(), "ports", `want a block to, whose ports these are, as in to { cidrs = ["10.0.0.0/8"] }`)
	}
	if e.DNS {
		e.Ports = dnsPorts
	} else {
		e.To = Selector{Network: noNetwork}
	}
	return e
}

// refuseHost reports a selector of the host where it selects nothing.
func (v *values) refuseHost(read *selectorBlock, s Selector, want string) {
	if s.Host {
		v.Fault(read.Host.Range(), "host", want)
	}
}

// require reports a block that a rule lacks.
func (v *values) require(b *hcl.Block, name string, found *selectorBlock) {
	if found == nil {
		v.Fault(b.DefRange, b.Type+" "+strconv.Quote(b.Labels[0]), fmt.Sprintf("want a block %s with namespace, job, group, network or cidrs", name))
	}
}
