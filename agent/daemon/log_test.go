// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"bytes"
	"regexp"
	"testing"

	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/internal/errdefs"
)

func TestLogger(t *testing.T) {
	for format, want := range map[string]string{
		"json":    `^\{.*"@message":"low space".*\}\n$`,
		"journal": `^<4>\[WARN\]  allocnet: low space\n$`,
		"text":    `^\d.* \[WARN\]  allocnet: low space\n$`,
	} {
		var out bytes.Buffer
		log, err := newLogger(config.Config{LogLevel: "warn", LogFormat: format}, &out)
		if err != nil {
			t.Fatal(err)
		}
		log.Info("not logged")
		log.Warn("low space")
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("%s: %q, want %s", format, out.String(), want)
		}
	}
	if _, err := newLogger(config.Config{LogLevel: "loud"}, nil); errdefs.Of(err) != errdefs.Refused {
		t.Errorf("an unknown level: %v", err)
	}
}
