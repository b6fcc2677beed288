// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"crypto/sha1" // which SPDX wants beside SHA-256
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"

	"github.com/allocnet/allocnet/tools/sbom/license"
)

const (
	own         = "github.com/allocnet/allocnet"
	noAssertion = "NOASSERTION"
)

// bill is a bill of materials, while programs are added to it.
type bill struct {
	doc     *v2_3.Document
	version string
	sources map[string]*license.Module
	// digest is that of all programs: the same programs give the same document.
	digest hash.Hash
	listed map[common.ElementID]bool
}

func newBill(name, version string, created time.Time, sources map[string]*license.Module) *bill {
	return &bill{
		doc: &v2_3.Document{
			SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: name + "-" + version,
			CreationInfo: &v2_3.CreationInfo{
				Creators: []common.Creator{{CreatorType: "Tool", Creator: own + "/tools/sbom"}}, Created: created.UTC().Format(time.RFC3339),
			},
		},
		version: version, sources: sources, digest: sha256.New(), listed: map[common.ElementID]bool{},
	}
}

// document returns the whole, with the name that no other programs have.
func (b *bill) document() *v2_3.Document {
	b.doc.DocumentNamespace = fmt.Sprintf("https://%s/sbom/%s-%x", own, b.doc.DocumentName, b.digest.Sum(nil)[:16])
	return b.doc
}

// add adds a program, and the modules of which it is built.
func (b *bill) add(dir, program string) error {
	data, err := os.ReadFile(filepath.Join(dir, program))
	if err != nil {
		return err
	}
	b.digest.Write(data)
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%s: %w: want a program that Go has built", filepath.Join(dir, program), err)
	}
	file := elementID("File", program)
	b.doc.Files = append(b.doc.Files, &v2_3.File{
		FileName: "./" + program, FileSPDXIdentifier: file, FileCopyrightText: noAssertion,
		Checksums: []common.Checksum{
			{Algorithm: common.SHA1, Value: fmt.Sprintf("%x", sha1.Sum(data))},
			{Algorithm: common.SHA256, Value: fmt.Sprintf("%x", sha256.Sum256(data))},
		},
	})
	b.relate("DOCUMENT", common.TypeRelationshipDescribe, file)
	compiler, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	modules := append([]*debug.Module{{Path: own, Version: b.version}, {Path: "go", Version: compiler}}, info.Deps...)
	for _, m := range modules {
		id, err := b.addModule(m)
		if err != nil {
			return fmt.Errorf("%s: %w", program, err)
		}
		b.relate(file, common.TypeRelationshipGeneratedFrom, id)
	}
	return nil
}

// addModule adds a module, unless another program has it, too.
func (b *bill) addModule(m *debug.Module) (common.ElementID, error) {
	source := b.sources[m.Path]
	if source == nil || m.Replace != nil {
		return "", fmt.Errorf("no package of its module %s is used by ./cmd/... in this directory and environment, or the module is replaced", m.Path)
	}
	version := strings.TrimPrefix(m.Version, "v")
	id := elementID("Package", m.Path+"-"+version)
	if b.listed[id] {
		return id, nil
	}
	b.listed[id] = true
	found, err := source.Licenses()
	if err != nil {
		return "", err
	}
	licenses := strings.Join(found, " AND ")
	b.doc.Packages = append(b.doc.Packages, &v2_3.Package{
		PackageName: m.Path, PackageSPDXIdentifier: id, PackageVersion: version, PackageDownloadLocation: noAssertion,
		PackageSupplier:         &common.Supplier{Supplier: noAssertion},
		PackageLicenseConcluded: licenses, PackageLicenseDeclared: licenses, // from the license files
		PackageExternalReferences: []*v2_3.PackageExternalReference{{
			Category: "PACKAGE-MANAGER", RefType: "purl", Locator: "pkg:golang/" + strings.ToLower(m.Path) + "@" + version,
		}},
	})
	return id, nil
}

func (b *bill) relate(from common.ElementID, how string, to common.ElementID) {
	b.doc.Relationships = append(b.doc.Relationships, &v2_3.Relationship{
		RefA: common.DocElementID{ElementRefID: from}, Relationship: how, RefB: common.DocElementID{ElementRefID: to},
	})
}

// notInID are the bytes that an SPDX identifier cannot have.
var notInID = regexp.MustCompile(`[^a-zA-Z0-9.-]`)

func elementID(kind, name string) common.ElementID {
	return common.ElementID(kind + "-" + notInID.ReplaceAllString(name, "-"))
}
