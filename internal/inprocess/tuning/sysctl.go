// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package tuning

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/strictjson"
)

// sysctlAllowlist has a regular expression in each line. One of them must match each key of
// the tuning plugin; without the file, every key is allowed.
var sysctlAllowlist = "/etc/cni/tuning/allowlist.conf"

// refuseUnlistedSysctls fails if the allowlist lacks a key.
func refuseUnlistedSysctls(values map[string]string) error {
	data, err := os.ReadFile(sysctlAllowlist)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var allowed []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" {
			allowed = append(allowed, line)
		}
	}
	return requireAllowed(slices.Sorted(maps.Keys(values)), allowed)
}

// requireAllowed fails unless each key is matched by one of the expressions.
func requireAllowed(keys, allowed []string) error {
	for _, key := range keys {
		found := false
		for _, expression := range allowed {
			matched, err := regexp.MatchString(expression, key)
			if err != nil {
				return err
			}
			if found = found || matched; found {
				break
			}
		}
		if !found {
			return fmt.Errorf("Sysctl %s is not allowed. Only the following sysctls are allowed: %+v", key, allowed) //nolint:staticcheck // the reference plugin's text
		}
	}
	return nil
}

// refuseDuplicateSysctls fails if a key occurs twice in "sysctl": which value counts would be
// a matter of luck.
func refuseDuplicateSysctls(config []byte) error {
	var raw struct{ Sysctl json.RawMessage }
	if err := json.Unmarshal(config, &raw); err != nil || raw.Sysctl == nil {
		return err
	}
	var values map[string]string
	if err := json.Unmarshal(raw.Sysctl, &values); err != nil || values == nil {
		return err
	}
	twice, err := strictjson.Text{Data: raw.Sysctl}.Check(strictjson.Form{Into: &values})
	if err == nil && len(twice) > 0 {
		err = errors.New("duplicated sysctl keys are not allowed")
	}
	return err
}
