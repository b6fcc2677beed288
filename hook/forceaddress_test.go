// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/selection"
)

// TestForceAddress: no plugin gets the key by which it removes addresses of a bridge, however it is spelled, and an address that
// is in the way of the gateway is an error that says so. The record has the network as it is configured.
func TestForceAddress(t *testing.T) {
	const reason = "forceAddress removes none, because an operator or other attachments may need it: if nothing does: ip address del ADDRESS dev br0"
	inTheWay := types.NewError(999, `failed to set bridge addr: "br0" already has an IP address different from 10.0.0.1/24`, "")
	for name, test := range map[string]struct {
		key    string
		err    error
		reason bool
	}{
		"no key":            {`"forceAddress": false`, inTheWay, false},
		"in the way":        {`"forceAddress": true`, inTheWay, true},
		"another spelling":  {`"forceaddress": true`, inTheWay, true},
		"both spellings":    {`"FORCEADDRESS": true, "forceAddress": false`, inTheWay, true},
		"not in the way":    {`"forceAddress": true`, nil, false},
		"another error":     {`"forceAddress": true`, types.NewError(999, "no bridge", ""), false},
		"key of no boolean": {`"forceAddress": "yes"`, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t, nil)
			m.network(t, "web", `{"type": "bridge", "bridge": "br0", `+test.key+`}`)
			m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
				if strings.Contains(strings.ToLower(string(c.Stdin)), `"forceaddress":true`) && c.Verb == "ADD" {
					t.Errorf("%s got %s", c, c.Stdin)
				}
				return test.err != nil && c.Verb == "ADD", nil, test.err
			}
			_, err := m.Setup(t.Context(), Request{ID: "w1", Primary: &selection.Element{Name: "web", Interface: "eth0"}})
			if (err != nil) != (test.err != nil) || err != nil && strings.HasSuffix(err.Error(), reason) != test.reason {
				t.Errorf("got %v", err)
			}
			if err != nil {
				return
			}
			if record, err := m.env.Store.Read("w1"); err != nil || !strings.Contains(string(record.Attachments[0].ConfList), test.key[:14]) {
				t.Errorf("the record has %s, %v", record.Attachments[0].ConfList, err)
			}
		})
	}
}
