// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// AppendBinary appends the rules in a form that is read in a hundredth of the time of the file, and of which some are read by themselves. It is read by the
// same build of allocnet.
func (r Rules) AppendBinary(b []byte) ([]byte, error) {
	b = appendTexts(b, r.File)
	b = binary.AppendUvarint(b, uint64(len(r.Allow)))
	for i := range r.Allow {
		a := &r.Allow[i]
		b = binary.AppendUvarint(appendTexts(b, a.Name), uint64(a.Line))
		b = appendPorts(appendSelector(appendSelector(b, &a.From), &a.To), a.Ports)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Egress)))
	for i := range r.Egress {
		e := &r.Egress[i]
		b = binary.AppendUvarint(appendTexts(b, e.Name), uint64(e.Line))
		b = appendPorts(appendSelector(appendSelector(b, &e.From), &e.To), e.Ports)
		b = appendBool(b, e.DNS)
	}
	return b, nil
}

func appendBool(b []byte, is bool) []byte {
	if is {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendTexts(b []byte, texts ...string) []byte {
	for _, text := range texts {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	return b
}

func appendSelector(b []byte, s *Selector) []byte {
	b = appendTexts(b, s.Namespace, s.Job, s.Group, s.Network)
	b = binary.AppendUvarint(b, uint64(len(s.CIDRs)))
	for _, p := range s.CIDRs {
		encoded, _ := p.MarshalBinary() // it does not fail
		b = appendTexts(b, string(encoded))
	}
	return appendBool(b, s.Host)
}

func appendPorts(b []byte, ports []Ports) []byte {
	b = binary.AppendUvarint(b, uint64(len(ports)))
	for _, p := range ports {
		b = binary.AppendUvarint(appendTexts(b, p.Protocol), uint64(p.First)<<16|uint64(p.Last))
	}
	return b
}

// UnmarshalBinary reads what AppendBinary has made.
func (r *Rules) UnmarshalBinary(data []byte) error {
	return r.UnmarshalSome(data, nil)
}

// UnmarshalSome reads of that the rules whose selectors are wanted, because of thousands few are about one attachment; nil: all of them.
func (r *Rules) UnmarshalSome(data []byte, isWanted func(from, to *Selector) bool) error {
	d := decoder{rest: string(data)}
	*r = Rules{File: d.text()}
	one := Egress{} // also of rules allow: it is made once
	read := func() (wanted bool) {
		one.Name, one.Line = d.text(), int(d.number())
		d.selector(&one.From)
		d.selector(&one.To)
		if wanted = isWanted == nil || isWanted(&one.From, &one.To); wanted {
			one.Ports = d.ports()
		} else {
			d.skipPorts()
		}
		return wanted
	}
	n := d.count()
	if isWanted == nil && n > 0 {
		r.Allow = make([]Allow, 0, n)
	}
	for range n {
		if read() {
			r.Allow = append(r.Allow, Allow{one.Name, one.Line, one.From, one.To, one.Ports})
		}
	}
	for range d.count() {
		wanted := read()
		if one.DNS = d.number() == 1; wanted {
			r.Egress = append(r.Egress, one)
		}
	}
	if d.failed || d.rest != "" {
		return errors.New("the encoded rules are damaged")
	}
	return nil
}

// decoder reads what is left of a text. Texts that it returns are parts of it.
type decoder struct {
	rest   string
	failed bool
}

func (d *decoder) number() (n uint64) {
	for shift := 0; shift < 64; shift += 7 {
		if d.rest == "" {
			break
		}
		c := d.rest[0]
		d.rest = d.rest[1:]
		n |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return n
		}
	}
	d.failed, d.rest = true, ""
	return 0
}

func (d *decoder) text() string {
	n := d.number()
	if n > uint64(len(d.rest)) {
		d.failed, d.rest = true, ""
		return ""
	}
	text := d.rest[:n]
	d.rest = d.rest[n:]
	return text
}

// count returns how many of something follow, each of at least a byte.
func (d *decoder) count() uint64 {
	n := d.number()
	if n > uint64(len(d.rest)) {
		d.failed, d.rest = true, ""
		return 0
	}
	return n
}

// list reads as many as are counted before them; nil: none.
func list[T any](d *decoder, read func(*T)) []T {
	n := d.count()
	if n == 0 {
		return nil
	}
	all := make([]T, n)
	for i := range all {
		read(&all[i])
	}
	return all
}

func (d *decoder) selector(s *Selector) {
	s.Namespace, s.Job, s.Group, s.Network = d.text(), d.text(), d.text(), d.text()
	s.CIDRs = list(d, func(p *netip.Prefix) {
		if err := p.UnmarshalBinary([]byte(d.text())); err != nil || !p.IsValid() {
			d.failed = true
		}
	})
	s.Host = d.number() == 1
}

func (d *decoder) ports() []Ports {
	return list(d, func(p *Ports) {
		p.Protocol = d.text()
		both := d.number()
		p.First, p.Last = uint16(both>>16), uint16(both)
	})
}

// skipPorts goes on behind ports.
func (d *decoder) skipPorts() {
	for range d.count() {
		d.text()
		d.number()
	}
}
