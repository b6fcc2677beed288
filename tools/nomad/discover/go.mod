// In place of go-discover, in the Nomad of the tests.
module github.com/hashicorp/go-discover

go 1.26.0
