// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"encoding/binary"
	"slices"

	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// KeySet is a set in which rules look keys up.
type KeySet struct {
	Name, Comment string
	// Key are the parts of a key.
	Key []KeyType
	// IsMap is whether elements have a verdict.
	IsMap bool
	// Data is the type of the value that each element has instead. The zero value: none has one.
	Data KeyType
	// Counts is whether elements count the packets that are looked up and found.
	Counts bool
	// IsConstant is whether its elements stay as they are while rules look into it.
	IsConstant bool
	// HasRanges is whether an element begins a range of keys, which the next one ends. A key has one part then.
	HasRanges bool
}

// Element is an element of a KeySet.
type Element struct {
	Key []byte
	// IsEnd is whether a range ends before the key.
	IsEnd bool
	// Verdict is that of a map, and Chain where it leads.
	Verdict expr.VerdictKind
	Chain   string
	// Data is that of a map of values.
	Data    []byte
	Comment string
	// Counted is what it has counted since it is there.
	Counted Counted
}

// Counted are packets, and the bytes of them.
type Counted struct{ Packets, Bytes uint64 }

// KeyType is what a part of a key is to nft, which shows it so.
type KeyType struct {
	number    uint32
	length    int
	byteOrder uint32
	// typeOf is the expression that it is the type of, in the form of nft, if it has no name.
	typeOf []byte
}

// The types of keys.
var (
	LinkName = KeyType{41, unix.IFNAMSIZ, hostOrder, []byte{0, 4, 9, 0, 0, 0, 1, 6, 0, 4, 6, 0, 0, 0}}
	MAC      = KeyType{9, 6, bigEndian, nil}
	Address4 = KeyType{7, 4, bigEndian, nil}
	Address6 = KeyType{8, 16, bigEndian, nil}
	// TargetAddress6 is the target of an advertisement of a neighbour. Versions of nft before 1.0.8 know it as bytes of the network header.
	TargetAddress6 = KeyType{4, 16, bigEndian, []byte{
		0, 4, 7, 0, 0, 0, 1, 30, // an expression of the payload
		0, 4, 0, 0, 0, 0, 1, 4, 0, 0, 0, 0, // of no protocol
		2, 4, 2, 0, 0, 0, 3, 4, 0x80, 1, 0, 0, 4, 4, 0x80, 0, 0, 0, // of the network header: bits from 384 on, 128 of them
	}}
)

// Byte orders, and attributes of the user data of sets, as nft numbers them.
const (
	hostOrder = 1
	bigEndian = 2

	setKeyByteOrder  = 0
	setDataByteOrder = 1
	setKeyTypeOf     = 3
	setComment       = 7
	concatenation    = 13
)

// setExpr is an attribute of <linux/netfilter/nf_tables.h> that package unix lacks: what each element of a set has.
const setExpr = 17

// typeBits is how many bits of the type of a key each of its parts has.
const typeBits = 6

func (s *KeySet) keyType() (number uint32, length int) {
	for _, part := range s.Key {
		number = number<<typeBits | part.number
		length += (part.length + 3) &^ 3
	}
	if len(s.Key) == 1 {
		length = s.Key[0].length
	}
	return number, length
}

// userData is what nft needs to show the set.
func (s *KeySet) userData() []byte {
	order := uint32(0)
	if len(s.Key) == 1 {
		order = s.Key[0].byteOrder
	}
	data := userdata.AppendUint32(nil, setKeyByteOrder, order)
	if s.Data.length > 0 {
		data = userdata.AppendUint32(data, setDataByteOrder, s.Data.byteOrder)
	}
	if slices.ContainsFunc(s.Key, func(k KeyType) bool { return k.number == TargetAddress6.number }) {
		var parts []byte
		for i, part := range s.Key {
			parts = append(append(parts, byte(i), byte(len(part.typeOf))), part.typeOf...)
		}
		typeOf := append([]byte{0, 4, concatenation, 0, 0, 0, 1, byte(len(parts))}, parts...)
		data = append(append(data, setKeyTypeOf, byte(len(typeOf))), typeOf...)
	}
	if s.Comment != "" {
		data = userdata.AppendString(data, setComment, s.Comment)
	}
	return data
}

// AddKeySet makes a set that is not there.
func (b *Batch) AddKeySet(t *Table, s *KeySet) {
	b.keySets++
	flags := uint32(0)
	kind, length := s.keyType()
	attrs := []netlink.Attribute{
		text(unix.NFTA_SET_TABLE, t.Name), text(unix.NFTA_SET_NAME, s.Name), number(unix.NFTA_SET_ID, b.keySets),
		number(unix.NFTA_SET_KEY_TYPE, kind), number(unix.NFTA_SET_KEY_LEN, uint32(length)),
		{Type: unix.NFTA_SET_USERDATA, Data: s.userData()},
	}
	if s.IsMap {
		flags |= unix.NFT_SET_MAP
		attrs = append(attrs, number(unix.NFTA_SET_DATA_TYPE, unix.NFT_DATA_VERDICT), number(unix.NFTA_SET_DATA_LEN, 0))
	}
	if s.Data.length > 0 {
		flags |= unix.NFT_SET_MAP
		attrs = append(attrs, number(unix.NFTA_SET_DATA_TYPE, s.Data.number), number(unix.NFTA_SET_DATA_LEN, uint32(s.Data.length)))
	}
	if s.Counts {
		counter, err := expr.Marshal(byte(numbers[t.Family]), &expr.Counter{})
		b.fail(err)
		attrs = append(attrs, netlink.Attribute{Type: unix.NLA_F_NESTED | setExpr, Data: counter})
	}
	if s.IsConstant {
		flags |= unix.NFT_SET_CONSTANT
	}
	if s.HasRanges {
		flags |= unix.NFT_SET_INTERVAL
	}
	b.add(unix.NFT_MSG_NEWSET, netlink.Create, t.Family, append(attrs, number(unix.NFTA_SET_FLAGS, flags)))
}

// DeleteKeySet deletes a set that no rule looks into by then, with its elements.
func (b *Batch) DeleteKeySet(t *Table, name string) {
	b.add(unix.NFT_MSG_DELSET, 0, t.Family, []netlink.Attribute{text(unix.NFTA_SET_TABLE, t.Name), text(unix.NFTA_SET_NAME, name)})
}

// AddElements adds elements to a set. Those that it has stay.
func (b *Batch) AddElements(t *Table, set string, elements []Element) {
	b.elements(unix.NFT_MSG_NEWSETELEM, netlink.Create, t, set, elements)
}

// DeleteElements deletes elements that the set has.
func (b *Batch) DeleteElements(t *Table, set string, elements []Element) {
	b.elements(unix.NFT_MSG_DELSETELEM, 0, t, set, elements)
}

// mostElements is how many a message has.
const mostElements = 200

func (b *Batch) elements(kind int, flags netlink.HeaderFlags, t *Table, set string, elements []Element) {
	for part := range slices.Chunk(elements, mostElements) {
		var list []netlink.Attribute
		for i := range part {
			list = append(list, b.nested(unix.NFTA_LIST_ELEM, b.element(&part[i])...))
		}
		b.add(kind, flags, t.Family, []netlink.Attribute{
			text(unix.NFTA_SET_ELEM_LIST_TABLE, t.Name), text(unix.NFTA_SET_ELEM_LIST_SET, set), b.nested(unix.NFTA_SET_ELEM_LIST_ELEMENTS, list...),
		})
	}
}

func (b *Batch) element(e *Element) []netlink.Attribute {
	attrs := []netlink.Attribute{b.nested(unix.NFTA_SET_ELEM_KEY, netlink.Attribute{Type: unix.NFTA_DATA_VALUE, Data: e.Key})}
	if e.IsEnd {
		attrs = append(attrs, number(unix.NFTA_SET_ELEM_FLAGS, unix.NFT_SET_ELEM_INTERVAL_END))
	}
	if e.Verdict != 0 {
		verdict := []netlink.Attribute{number(unix.NFTA_VERDICT_CODE, uint32(e.Verdict))}
		if e.Chain != "" {
			verdict = append(verdict, text(unix.NFTA_VERDICT_CHAIN, e.Chain))
		}
		attrs = append(attrs, b.nested(unix.NFTA_SET_ELEM_DATA, b.nested(unix.NFTA_DATA_VERDICT, verdict...)))
	}
	if e.Data != nil {
		attrs = append(attrs, b.nested(unix.NFTA_SET_ELEM_DATA, netlink.Attribute{Type: unix.NFTA_DATA_VALUE, Data: e.Data}))
	}
	return withComment(attrs, unix.NFTA_SET_ELEM_USERDATA, e.Comment)
}

// KeySets returns the names of the sets of a table; none if there is no such table.
func (s *Socket) KeySets(t *Table) (names []string, err error) {
	err = s.dumpOf(unix.NFT_MSG_GETSET, t.Family, []netlink.Attribute{text(unix.NFTA_SET_TABLE, t.Name)}, func(payload []byte) {
		names = append(names, stringOf(payload, unix.NFTA_SET_NAME))
	})
	return names, err
}

// HasSet tells whether a table has a set.
func (s *Socket) HasSet(t *Table, set string) (bool, error) {
	data, err := netlink.MarshalAttributes([]netlink.Attribute{text(unix.NFTA_SET_TABLE, t.Name), text(unix.NFTA_SET_NAME, set)})
	if err != nil {
		return false, err
	}
	answers, err := s.Execute(message(unix.NFT_MSG_GETSET, 0, t.Family, data))
	return err == nil && len(answers) > 0, ignoreUnsupported(err)
}

// Elements returns the elements of a set; none if there is no such set.
func (s *Socket) Elements(t *Table, set string) (elements []Element, err error) {
	err = s.dumpOf(unix.NFT_MSG_GETSETELEM, t.Family, elementsOf(t, set), func(payload []byte) {
		for _, element := range attributes(valueOf(payload, unix.NFTA_SET_ELEM_LIST_ELEMENTS)) {
			elements = append(elements, newElement(element))
		}
	})
	return elements, err
}

func elementsOf(t *Table, set string) []netlink.Attribute {
	return []netlink.Attribute{text(unix.NFTA_SET_ELEM_LIST_TABLE, t.Name), text(unix.NFTA_SET_ELEM_LIST_SET, set)}
}

// Element returns the element of a set with a key; ok is false if there is none.
func (s *Socket) Element(t *Table, set string, key []byte) (e Element, ok bool, err error) {
	b := &Batch{}
	list := b.nested(unix.NFTA_SET_ELEM_LIST_ELEMENTS, b.nested(unix.NFTA_LIST_ELEM, b.element(&Element{Key: key})...))
	data, err := netlink.MarshalAttributes(append(elementsOf(t, set), list))
	if err != nil {
		return Element{}, false, err
	}
	answers, err := s.Execute(message(unix.NFT_MSG_GETSETELEM, 0, t.Family, data))
	if err != nil || len(answers) == 0 {
		return Element{}, false, ignoreUnsupported(err)
	}
	payload := answers[0].Data[min(nfgenmsgSize, len(answers[0].Data)):]
	for _, element := range attributes(valueOf(payload, unix.NFTA_SET_ELEM_LIST_ELEMENTS)) {
		return newElement(element), true, nil
	}
	return Element{}, false, nil
}

func newElement(data []byte) Element {
	e := Element{
		Key:     slices.Clone(valueOf(data, unix.NFTA_SET_ELEM_KEY, unix.NFTA_DATA_VALUE)),
		IsEnd:   numberOf(data, unix.NFTA_SET_ELEM_FLAGS)&unix.NFT_SET_ELEM_INTERVAL_END != 0,
		Comment: ListedRule{userdata: valueOf(data, unix.NFTA_SET_ELEM_USERDATA)}.Comment(),
	}
	if verdict := valueOf(data, unix.NFTA_SET_ELEM_DATA, unix.NFTA_DATA_VERDICT); verdict != nil {
		e.Verdict = expr.VerdictKind(int32(binary.BigEndian.Uint32(valueOf(verdict, unix.NFTA_VERDICT_CODE))))
		e.Chain = stringOf(verdict, unix.NFTA_VERDICT_CHAIN)
	}
	if value := valueOf(data, unix.NFTA_SET_ELEM_DATA, unix.NFTA_DATA_VALUE); value != nil {
		e.Data = slices.Clone(value)
	}
	if counter := valueOf(data, unix.NFTA_SET_ELEM_EXPR, unix.NFTA_EXPR_DATA); counter != nil {
		e.Counted = Counted{longOf(counter, unix.NFTA_COUNTER_PACKETS), longOf(counter, unix.NFTA_COUNTER_BYTES)}
	}
	return e
}

// Key returns the key of the parts, each as long as words.
func Key(parts ...[]byte) []byte {
	var key []byte
	for _, part := range parts {
		key = append(key, part...)
		if len(parts) > 1 {
			key = append(key, make([]byte, -len(part)&3)...)
		}
	}
	return key
}

// LinkKey returns the name of an interface as a part of a key.
func LinkKey(name string) []byte {
	return append([]byte(name), make([]byte, max(0, unix.IFNAMSIZ-len(name)))...)
}
