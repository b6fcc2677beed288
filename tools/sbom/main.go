// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Command sbom writes the SPDX bill of materials of a release: the modules that
// its programs were built from, as OSV-SCALIBR reads them from the programs.
//
// Usage: sbom NAME VERSION DIR PROGRAM...
package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	cpb "github.com/google/osv-scalibr/binary/proto/config_go_proto"
	"github.com/google/osv-scalibr/binary/spdx"
	"github.com/google/osv-scalibr/converter"
	spdxconf "github.com/google/osv-scalibr/converter/spdx"
	"github.com/google/osv-scalibr/extractor/filesystem"
	"github.com/google/osv-scalibr/extractor/filesystem/language/golang/gobinary"
	"github.com/google/osv-scalibr/inventory"
	"github.com/google/uuid"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 4 {
		return fmt.Errorf("got %d arguments: want NAME VERSION DIR PROGRAM...", len(args))
	}
	name, version, dir, programs := args[0], args[1], args[2], args[3:]
	created, err := epoch()
	if err != nil {
		return err
	}
	var all inventory.Inventory
	digest := sha256.New()
	for _, program := range programs {
		data, err := os.ReadFile(filepath.Join(dir, program))
		if err != nil {
			return err
		}
		digest.Write(data)
		if err := addModules(&all, dir, program, version); err != nil {
			return err
		}
	}
	// The same programs give the same document.
	sum := [32]byte(digest.Sum(nil))
	uuid.SetRand(rand.NewChaCha8(sum))
	doc := converter.ToSPDX23(all, spdxconf.Config{
		DocumentName:      name + "-" + version,
		DocumentNamespace: fmt.Sprintf("https://github.com/allocnet/allocnet/sbom/%s-%s-%x", name, version, sum[:16]),
	})
	doc.CreationInfo.Created = created.UTC().Format(time.RFC3339)
	return spdx.Write23(doc, "/dev/stdout", "spdx23-json")
}

// notInID are the bytes that an SPDX identifier cannot have.
var notInID = regexp.MustCompile(`[^a-zA-Z0-9.-]`)

// addModules adds the modules of a program. This module has the release's version.
func addModules(all *inventory.Inventory, dir, program, version string) error {
	file, err := os.Open(filepath.Join(dir, program))
	if err != nil {
		return err
	}
	defer file.Close()
	extractor, err := gobinary.New(&cpb.PluginConfig{})
	if err != nil {
		return err
	}
	found, err := extractor.Extract(context.Background(), &filesystem.ScanInput{Path: program, Reader: file})
	if err != nil {
		return err
	}
	if len(found.Packages) == 0 {
		return fmt.Errorf("%s: has no build information of Go", file.Name())
	}
	for _, p := range found.Packages {
		if p.Name == "github.com/allocnet/allocnet" {
			p.Version = version
		}
		p.ScanRoot = dir
		p.ID = notInID.ReplaceAllString(program+"-"+p.Name+"-"+p.Version, "-")
	}
	all.Append(found)
	return nil
}

// epoch is SOURCE_DATE_EPOCH, else now.
func epoch() (time.Time, error) {
	set := os.Getenv("SOURCE_DATE_EPOCH")
	if set == "" {
		return time.Now(), nil
	}
	seconds, err := strconv.ParseInt(set, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(seconds, 0), nil
}
