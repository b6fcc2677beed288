// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/allocnet/allocnet/state"
)

// TestUnknownPlugins: a plugin outside of the catalogue is an error only where its
// DEL failed. An error that an earlier teardown recorded does not count.
func TestUnknownPlugins(t *testing.T) {
	unknown := json.RawMessage(`{"plugins": [{"type": "bridge"}, {"type": "vendor"}]}`)
	known := json.RawMessage(`{"plugins": [{"type": "bridge"}]}`)
	failed := errors.New("exit status 1")
	for name, test := range map[string]struct {
		suspect state.Suspect
		want    string
	}{
		"DEL failed":           {state.Suspect{Attachment: state.Attachment{ConfList: unknown}, DelErr: failed}, "vendor"},
		"DEL succeeded":        {state.Suspect{Attachment: state.Attachment{ConfList: unknown}}, ""},
		"DEL failed before":    {state.Suspect{Attachment: state.Attachment{ConfList: unknown, Error: "exit status 1"}}, ""},
		"known and DEL failed": {state.Suspect{Attachment: state.Attachment{ConfList: known}, DelErr: failed}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := catalogue.unknownPlugins([]state.Suspect{test.suspect})
			var plugin *UnknownPluginError
			if errors.As(err, &plugin) != (test.want != "") || plugin != nil && plugin.Plugin != test.want {
				t.Errorf("%v, want plugin %q", err, test.want)
			}
		})
	}
}
