// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package strictjson

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// Mistake is a key that is not read as its author means it.
type Mistake struct {
	Key string
	// Of names the object that has it.
	Of   string
	Path string
	Line int
	// Twice is whether the object has the key already, maybe in another case.
	Twice bool
	// Known are the keys that the object can have.
	Known []string
}

func (m *Mistake) Error() string {
	if m.Twice {
		return fmt.Sprintf("key %q of %s in %s:%d is there twice: remove one of them", m.Key, m.Of, m.Path, m.Line)
	}
	text := fmt.Sprintf("unknown key %q of %s in %s:%d; ", m.Key, m.Of, m.Path, m.Line)
	if meant := Similar(m.Key, m.Known); meant != "" {
		return text + "did you mean " + meant + "?"
	}
	return text + "want " + strings.Join(m.Known, ", ")
}

// Kind is that of package errdefs.
func (*Mistake) Kind() errdefs.Kind { return errdefs.Refused }

// Form says which keys an object can have.
type Form struct {
	// Of names the object in errors.
	Of string
	// Into is a pointer to what the object is decoded into.
	Into any
	// Exact requires the case of keys, which encoding/json ignores.
	Exact bool
	// Skip are keys whose values may have any keys.
	Skip []string
	// Instead has, for types that decode themselves, types with their keys.
	Instead map[reflect.Type]reflect.Type
	// Ignore tells whether a key that is unknown is no mistake. Nil: each is one.
	Ignore func(key string) bool
}

// Check returns the mistakes in an object and in those within it, in the order of the text.
func (t Text) Check(f Form) ([]*Mistake, error) {
	c := checker{form: f}
	err := c.object(t, reflect.TypeOf(f.Into), f.Of)
	return c.mistakes, err
}

type checker struct {
	form     Form
	mistakes []*Mistake
	// depth is how many objects and arrays are around the one that is examined.
	depth int
}

// maxDepth bounds them: each is read by all that are around it.
const maxDepth = 32

func (c *checker) value(t Text, into reflect.Type, of string) error {
	if len(t.Data) == 0 {
		return nil
	}
	if c.depth++; c.depth > maxDepth {
		return fmt.Errorf("want at most %d objects and arrays within each other", maxDepth)
	}
	defer func() { c.depth-- }()
	switch t.Data[0] {
	case '{':
		return c.object(t, into, of)
	case '[':
		elements, err := t.Elements()
		if err != nil {
			return err
		}
		if into = c.plain(into); into != nil && into.Kind() == reflect.Slice {
			into = into.Elem()
		} else {
			into = nil
		}
		for i, element := range elements {
			if err := c.value(element, into, fmt.Sprintf("%s[%d]", of, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *checker) object(t Text, into reflect.Type, of string) error {
	members, err := t.Members()
	if err != nil {
		return err
	}
	into = c.plain(into)
	fields, known := fieldsOf(into)
	seen := map[string]bool{}
	for _, m := range members {
		name, unknown := m.Key, false
		field, ok := find(fields, m.Key, c.form.Exact)
		if known != nil {
			name = Fold(name) // also where case counts: the two would differ by nothing else
			unknown = !ok && (c.form.Ignore == nil || !c.form.Ignore(m.Key))
		}
		if seen[name] || unknown {
			c.mistakes = append(c.mistakes, &Mistake{m.Key, of, t.Path, m.Line, seen[name], known})
		}
		seen[name] = true
		if unknown || of == c.form.Of && slices.Contains(c.form.Skip, m.Key) {
			continue
		}
		if into != nil && into.Kind() == reflect.Map {
			field = into.Elem()
		}
		if err := c.value(m.Value, field, of+"."+m.Key); err != nil {
			return err
		}
	}
	return nil
}

// plain returns what a pointer leads to; nil for what may have any keys.
func (c *checker) plain(t reflect.Type) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if instead, ok := c.form.Instead[t]; ok {
		return instead
	}
	if t == nil || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return nil
	}
	return t
}

// fieldsOf returns the types of a struct's fields by their keys, and the keys in order; nil
// for another type.
func fieldsOf(t reflect.Type) (fields map[string]reflect.Type, keys []string) {
	if t == nil || t.Kind() != reflect.Struct {
		return nil, nil
	}
	fields, keys = map[string]reflect.Type{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if key == "-" || !f.IsExported() || f.Anonymous && key == "" {
			continue
		}
		if key == "" {
			key = f.Name
		}
		if _, shadowed := fields[key]; !shadowed || len(f.Index) == 1 {
			fields[key] = f.Type
		}
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return fields, keys
}

func find(fields map[string]reflect.Type, key string, exact bool) (reflect.Type, bool) {
	if field, ok := fields[key]; ok || exact {
		return field, ok
	}
	for name, field := range fields {
		if strings.EqualFold(name, key) {
			return field, true
		}
	}
	return nil, false
}
