// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam/storetest"
)

// TestFormats: what is on disk has the version of its format, and a file of each version is read.
func TestFormats(t *testing.T) {
	storetest.Golden(t, fmt.Sprintf("testdata/node-%d.json", nodeVersion), &node{})
	storetest.Golden(t, fmt.Sprintf("testdata/blocks-%d.json", recordsVersion), &records{})
	storetest.Golden(t, fmt.Sprintf("testdata/endpoint-%d.json", endpointVersion), &endpoint{})
	storetest.Golden(t, fmt.Sprintf("testdata/view-%d.json", viewVersion), &view{})
	storetest.Golden(t, fmt.Sprintf("testdata/present-%d.json", presentVersion), &present{})
	w := newWorld(1)
	h := w.hosts[0]
	for version := range nodeVersion + 1 {
		h.files[nodeFile] = golden(t, nodeFile, version)
		n, err := h.agent.machine.read("00000000000000000000000000000001")
		if err != nil || n.last() != "nonce1" || !n.Contested || n.Index != 7 {
			t.Errorf("version %d: %+v, %v", version, n, err)
		}
	}
	for version := range viewVersion + 1 {
		h.files[viewFile] = golden(t, viewFile, version)
		if v, err := readView(h.agent.ledger.dir, moment{Boot: "boot1"}); err != nil || v.Index != 9 || len(v.Past) != 1 || v.Useless["ipam/p/b/10-0-0-8-30"].Index != 8 {
			t.Errorf("view, version %d: %+v, %v", version, v, err)
		}
	}
	for version := range presentVersion + 1 {
		h.present[presentFile] = golden(t, presentFile, version)
		if is, err := h.agent.ledger.isPresent(&records{Boot: "boot1", Generation: "g"}); err != nil || !is {
			t.Errorf("present, version %d: %v, %v", version, is, err)
		}
	}
}

// golden returns a file as a version wrote it.
func golden(t *testing.T, name string, version int) []byte {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("testdata/%s-%d.json", strings.TrimSuffix(name, ".json"), version))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestLaterFormats: no file of a later release counts as none, or as a damaged one.
func TestLaterFormats(t *testing.T) {
	w := newWorld(1)
	h := w.hosts[0]
	for name, latest := range map[string]int{recordsFile: recordsVersion, nodeFile: nodeVersion, endpointFile: endpointVersion, viewFile: viewVersion, presentFile: presentVersion, "of the boot": nodeVersion} {
		h.files, h.present = map[string][]byte{}, map[string][]byte{}
		at := h.files
		if name == presentFile {
			at = h.present
		}
		if name == "of the boot" {
			at, name = h.present, nodeFile
		}
		at[name] = fmt.Appendf(nil, `{"version":%d,"index":{},"boot":[]}`, latest+1)
		_, errView := readView(h.agent.ledger.dir, moment{})
		_, errRecords := h.agent.ledger.read(h.self.Instance)
		_, errNode := h.agent.machine.read(h.self.Instance)
		_, errEndpoint := readEndpoint(h.agent.ledger.dir, h.self.Instance)
		err := errors.Join(errView, errRecords, errNode, errEndpoint)
		for _, part := range []string{name, fmt.Sprintf("version is %d, want at most %d", latest+1, latest), "a later release"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q", name, err, part)
			}
		}
	}
}
