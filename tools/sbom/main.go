// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Command sbom writes the SPDX bill of materials of a release: the modules that
// its programs were built from, as OSV-SCALIBR reads them from the programs, and their
// licenses. It has to run in the directory of their source, with the environment in which
// they were built.
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
	"github.com/google/osv-scalibr/extractor"
	"github.com/google/osv-scalibr/extractor/filesystem"
	"github.com/google/osv-scalibr/extractor/filesystem/language/golang/gobinary"
	"github.com/google/osv-scalibr/inventory"
	"github.com/google/uuid"

	"github.com/allocnet/allocnet/tools/sbom/license"
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
	modules, err := license.Modules(".", nil, "./cmd/...")
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
		found, err := packages(dir, program)
		if err != nil {
			return err
		}
		for _, p := range found.Packages {
			if err := complete(p, modules, dir, program, version); err != nil {
				return err
			}
		}
		all.Append(found)
	}
	// The same programs give the same document.
	sum := [32]byte(digest.Sum(nil))
	uuid.SetRand(rand.NewChaCha8(sum))
	doc := converter.ToSPDX23(all, spdxconf.Config{
		DocumentName:      name + "-" + version,
		DocumentNamespace: fmt.Sprintf("https://github.com/allocnet/allocnet/sbom/%s-%s-%x", name, version, sum[:16]),
	})
	for _, p := range doc.Packages {
		p.PackageLicenseDeclared = p.PackageLicenseConcluded // from the license files
	}
	doc.CreationInfo.Created = created.UTC().Format(time.RFC3339)
	return spdx.Write23(doc, "/dev/stdout", "spdx23-json")
}

// notInID are the bytes that an SPDX identifier cannot have.
var notInID = regexp.MustCompile(`[^a-zA-Z0-9.-]`)

// packages returns the modules of a program.
func packages(dir, program string) (inventory.Inventory, error) {
	file, err := os.Open(filepath.Join(dir, program))
	if err != nil {
		return inventory.Inventory{}, err
	}
	defer file.Close()
	extractor, err := gobinary.New(&cpb.PluginConfig{})
	if err != nil {
		return inventory.Inventory{}, err
	}
	found, err := extractor.Extract(context.Background(), &filesystem.ScanInput{Path: program, Reader: file})
	if err == nil && len(found.Packages) == 0 {
		err = fmt.Errorf("%s: has no build information of Go", file.Name())
	}
	return found, err
}

// complete adds to a module of a program what is not in the program. This module has the
// release's version.
func complete(p *extractor.Package, modules map[string]*license.Module, dir, program, version string) error {
	source := modules[p.Name]
	if source == nil {
		return fmt.Errorf("%s: no package of its module %s is used by ./cmd/... in this directory and environment", program, p.Name)
	}
	var err error
	if p.Licenses, err = source.Licenses(); err != nil {
		return err
	}
	if p.Name == "github.com/allocnet/allocnet" {
		p.Version = version
	}
	p.ScanRoot = dir
	p.ID = notInID.ReplaceAllString(program+"-"+p.Name+"-"+p.Version, "-")
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
