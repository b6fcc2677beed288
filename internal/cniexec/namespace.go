// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniexec

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
)

// Namespace is the network namespace of a container. Its path may lead to another one
// while plugins run: they are given the handle, and all that they say has the path.
type Namespace struct {
	// Path is what libcni is given. Empty: there is none.
	Path string
	// Handle leads to the namespace until the last plugin has ended.
	Handle string
}

// call calls a plugin that gets the handle.
func (n Namespace) call(stdin []byte, environ []string, plugin func(stdin []byte, environ []string) ([]byte, error)) ([]byte, error) {
	if n.Path == n.Handle {
		return plugin(stdin, environ)
	}
	stdin, err := replaceText(stdin, n.Path, n.Handle)
	if err != nil {
		return nil, err
	}
	result, err := plugin(stdin, n.environ(environ))
	if err != nil {
		n.restore(err)
		return result, err
	}
	return replaceText(result, n.Handle, n.Path)
}

// environ returns the environment of a call with the handle.
func (n Namespace) environ(environ []string) []string {
	environ = slices.Clone(environ)
	for i, pair := range environ {
		if pair == "CNI_NETNS="+n.Path {
			environ[i] = "CNI_NETNS=" + n.Handle
		}
	}
	return environ
}

var literal = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// replaceText replaces a path in JSON, where it is the whole of a text, however that is escaped.
func replaceText(data []byte, path, by string) ([]byte, error) {
	to, err := json.Marshal(by)
	if err != nil {
		return nil, err
	}
	if !bytes.ContainsRune(data, '\\') {
		return bytes.ReplaceAll(data, []byte(`"`+path+`"`), to), nil
	}
	return literal.ReplaceAllFunc(data, func(text []byte) []byte {
		var value string
		if json.Unmarshal(text, &value) == nil && value == path {
			return to
		}
		return text
	}), nil
}

// restore writes the path into an error of a plugin. One that has the handle is of this call.
func (n Namespace) restore(err error) {
	withPath := func(text string) string { return strings.ReplaceAll(text, n.Handle, n.Path) }
	if own, ok := errors.AsType[*types.Error](err); ok && strings.Contains(own.Msg+own.Details, n.Handle) {
		own.Msg, own.Details = withPath(own.Msg), withPath(own.Details)
	}
	if failed, ok := errors.AsType[*ExecError](err); ok {
		failed.Stderr = withPath(failed.Stderr)
	}
}
