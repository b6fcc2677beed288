// The program that writes the SPDX bill of materials of a release, apart so that
// its dependencies stay out of allocnet's.
module github.com/allocnet/allocnet/tools/sbom

go 1.26.0

require (
	github.com/google/licensecheck v0.3.1
	github.com/spdx/tools-golang v0.5.7
)

require github.com/anchore/go-struct-converter v0.1.0 // indirect
