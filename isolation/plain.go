// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// plain reads a part of a text that has one rule as most are written: a key or the beginning of a block on each line, texts without escapes, and comments on lines
// of their own. That takes a fifth of the time of HCL, whose lexer knows much else, and is what HCL reads.
type plain struct {
	rest string
	// line is the number of the last line.
	line int
	// tokens are those of the last line.
	tokens []string
}

// plainBlock is a block with its keys, and blocks in it.
type plainBlock struct {
	keys   map[string]hcl.Expression
	blocks map[string]*plainBlock
}

// readPlain returns the rule of a part; ok is false if it is written in another way, or has a mistake.
func readPlain(part string) (rules []rule, ok bool) {
	p := plain{rest: part}
	if !p.next() || len(p.tokens) != 3 || p.tokens[1][0] != '"' || p.tokens[2] != "{" {
		return nil, false
	}
	b := &hcl.Block{Type: p.tokens[0], Labels: []string{p.tokens[1][1:]}, LabelRanges: make([]hcl.Range, 1), DefRange: hcl.Range{Start: hcl.Pos{Line: p.line}}}
	read, ok := p.block(true)
	if !ok || p.next() || p.tokens == nil {
		return nil, false
	}
	v := values{names: map[string]hcl.Range{}}
	v.name(b)
	from, to := read.selector("from"), read.selector("to")
	switch b.Type {
	case "allow":
		a := v.allow(b, &allowBlock{from, to, read.key("ports")})
		rules = []rule{{allow: &a}}
	case "egress":
		e := v.egress(b, &egressBlock{from, to, read.key("ports"), read.key("dns")})
		rules = []rule{{egress: &e}}
	default:
		return nil, false
	}
	return rules, read.isEmpty() && v.Err() == nil
}

// next reads the next line that has tokens. Without one, tokens are empty at the end of the text, and nil if a line is not plain.
func (p *plain) next() bool {
	p.tokens = p.tokens[:0]
	for p.rest != "" && len(p.tokens) == 0 {
		var line string
		line, p.rest, _ = strings.Cut(p.rest, "\n")
		p.line++
		if line = strings.Trim(line, " \t"); !p.split(line) {
			p.tokens, p.rest = nil, ""
			return false
		}
	}
	if p.tokens == nil {
		p.tokens = []string{}
	}
	return len(p.tokens) > 0
}

// split appends the tokens of a line: words, signs, and texts with a quote before them.
func (p *plain) split(line string) bool {
	isComment := strings.HasPrefix(line, "#") || strings.HasPrefix(line, "//")
	for i := range len(line) {
		if line[i] < ' ' && line[i] != '\t' || line[i] > '~' {
			return false
		}
	}
	for !isComment && line != "" {
		length := 1
		switch c := line[0]; {
		case c == '"':
			end := strings.IndexAny(line[1:], `"\$%`)
			if end < 0 || line[1+end] != '"' {
				return false
			}
			p.tokens, line = append(p.tokens, line[:1+end]), line[end+2:]
			line = strings.TrimLeft(line, " \t")
			continue
		case c >= 'a' && c <= 'z':
			for length < len(line) && line[length] >= 'a' && line[length] <= 'z' {
				length++
			}
		case !strings.ContainsRune("{}[]=,", rune(c)):
			return false
		}
		p.tokens, line = append(p.tokens, line[:length]), strings.TrimLeft(line[length:], " \t")
	}
	return true
}

// block reads to the end of a block that has begun.
func (p *plain) block(hasBlocks bool) (*plainBlock, bool) {
	b := &plainBlock{map[string]hcl.Expression{}, map[string]*plainBlock{}}
	for p.next() {
		t := p.tokens
		switch {
		case len(t) == 1 && t[0] == "}":
			return b, true
		case len(t) == 2 && t[1] == "{" && hasBlocks && b.blocks[t[0]] == nil:
			name := t[0] // the next line has its tokens there
			inner, ok := p.block(false)
			if b.blocks[name] = inner; !ok {
				return nil, false
			}
		case len(t) > 4 && t[1] == "{" && t[len(t)-1] == "}" && hasBlocks && b.blocks[t[0]] == nil:
			inner := &plainBlock{keys: map[string]hcl.Expression{}}
			if b.blocks[t[0]] = inner; !inner.set(t[2 : len(t)-1]) {
				return nil, false
			}
		case !b.set(t):
			return nil, false
		}
	}
	return nil, false
}

// set sets a key by the tokens of a line.
func (b *plainBlock) set(t []string) bool {
	if len(t) < 3 || t[1] != "=" || b.keys[t[0]] != nil {
		return false
	}
	value, ok := plainValue(t[2:])
	b.keys[t[0]] = hcl.StaticExpr(value, hcl.Range{})
	return ok && t[0][0] >= 'a' && t[0][0] <= 'z'
}

// plainValue is a text, a list of texts, or true or false.
func plainValue(t []string) (value cty.Value, ok bool) {
	if len(t) == 1 {
		switch {
		case t[0][0] == '"':
			return cty.StringVal(t[0][1:]), true
		case t[0] == "true" || t[0] == "false":
			return cty.BoolVal(t[0] == "true"), true
		}
		return cty.NilVal, false
	}
	if len(t)%2 == 0 || t[0] != "[" || t[len(t)-1] != "]" {
		return cty.NilVal, false
	}
	var all []cty.Value
	for i := 1; i < len(t); i += 2 {
		if t[i][0] != '"' || i+2 < len(t) && t[i+1] != "," {
			return cty.NilVal, false
		}
		all = append(all, cty.StringVal(t[i][1:]))
	}
	return cty.TupleVal(all), true
}

// key takes the value of a key.
func (b *plainBlock) key(name string) hcl.Expression {
	e := b.keys[name]
	if delete(b.keys, name); e == nil {
		return notSet
	}
	return e
}

var notSet = hcl.StaticExpr(cty.NullVal(cty.DynamicPseudoType), hcl.Range{})

// selector takes a block; nil: there is none.
func (b *plainBlock) selector(name string) *selectorBlock {
	inner := b.blocks[name]
	if inner == nil {
		return nil
	}
	s := &selectorBlock{Namespace: inner.key("namespace"), Job: inner.key("job"), Group: inner.key("group"), Network: inner.key("network"), CIDRs: inner.key("cidrs"), Host: inner.key("host")}
	if inner.isEmpty() {
		delete(b.blocks, name)
	}
	return s
}

// isEmpty tells whether all of it has been taken.
func (b *plainBlock) isEmpty() bool { return len(b.keys)+len(b.blocks) == 0 }
