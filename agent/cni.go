// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/allocnet/allocnet/agent/api"
)

// parameters are those of the CNI specification, section 3, "Parameters".
var parameters = []string{"CNI_ARGS", "CNI_COMMAND", "CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS", "CNI_NETNS_OVERRIDE", "CNI_PATH"}

// printed is the output of a plugin, which a caller prints as it is.
type printed []byte

func (a *Agent) postCNI(r *http.Request) (any, error) {
	var body api.CNI
	if err := read(r, &body); err != nil {
		return nil, err
	}
	body.Build = r.Header.Get(api.HeaderBuild)
	for _, name := range slices.Sorted(maps.Keys(body.Env)) {
		if !slices.Contains(parameters, name) {
			return nil, environment(fmt.Sprintf("variable %q: want %s", name, strings.Join(parameters, ", ")))
		}
	}
	if body.Env["CNI_COMMAND"] == "" {
		return nil, environment("CNI_COMMAND is missing")
	}
	if a.config.CNI == nil {
		return nil, unsupported("this agent does not execute CNI calls")
	}
	began := time.Now()
	result, err := a.config.CNI.Call(r.Context(), body)
	a.metrics.cniCall(body.Env["CNI_COMMAND"], time.Since(began), err)
	if err != nil || len(result) == 0 {
		return nil, err
	}
	return printed(result), nil
}

func environment(reason string) error {
	return &api.Error{Code: api.CodeEnvironment, Msg: "environment of the CNI call", Details: reason, Status: http.StatusUnprocessableEntity}
}
