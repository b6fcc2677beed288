// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/allocation"
)

// bodies are those of requests and answers. All other types of the API are in one of them.
var bodies = []any{
	api.Allocation{}, api.Attach{}, api.CNI{}, api.Cluster{}, api.Collected{}, api.DeniedFlows{}, api.Details{}, allocation.Element{}, api.Error{}, api.Event{},
	api.Health{}, api.Leaks{}, api.Map{}, api.Networks{}, api.Pools{}, api.Repair{}, api.Setup{},
}

// TestDescriptionHasEveryField: openapi.json has the keys of each body, and no others. Answers are held to it, too, but few
// of them have all keys.
func TestDescriptionHasEveryField(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(api.Description)
	if err != nil {
		t.Fatal(err)
	}
	described := map[*openapi3.Schema]bool{}
	for _, body := range bodies {
		of := reflect.TypeOf(body)
		ref := doc.Components.Schemas[of.Name()]
		if ref == nil {
			t.Errorf("openapi.json has no schema %s", of.Name())
			continue
		}
		requireKeys(t, of.Name(), of, ref.Value, described)
	}
	for name, ref := range doc.Components.Schemas {
		if len(ref.Value.Properties) > 0 && !described[ref.Value] {
			t.Errorf("schema %s of openapi.json is in no body", name)
		}
	}
}

// requireKeys compares the keys of a type with those of its schema, and those of its fields.
func requireKeys(t *testing.T, path string, of reflect.Type, schema *openapi3.Schema, described map[*openapi3.Schema]bool) {
	t.Helper()
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if schema.Items != nil {
		schema = schema.Items.Value
	}
	if len(schema.Properties) == 0 || of.Kind() != reflect.Struct {
		return
	}
	described[schema] = true
	fields, required := keysOf(of)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(fields)), slices.Sorted(maps.Keys(schema.Properties))); diff != "" {
		t.Errorf("%s: the type (-) and openapi.json (+) have other keys:\n%s", path, diff)
	}
	if diff := cmp.Diff(required, slices.Sorted(slices.Values(schema.Required))); diff != "" {
		t.Errorf("%s: the type (-) and openapi.json (+) have other keys that are always there:\n%s", path, diff)
	}
	for key, field := range fields {
		if property := schema.Properties[key]; property != nil {
			requireKeys(t, path+"."+key, field, property.Value, described)
		}
	}
}

// keysOf returns the types of the keys of a struct, and those that are there if they are empty, too.
func keysOf(of reflect.Type) (fields map[string]reflect.Type, required []string) {
	fields = map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(of) {
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if key == "" || key == "-" {
			continue
		}
		if fields[key] = f.Type; !strings.HasPrefix(options, "omit") {
			required = append(required, key)
		}
	}
	slices.Sort(required)
	return fields, required
}
