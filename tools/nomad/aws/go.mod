// In place of the SDK of AWS, in the Nomad of the tests.
module github.com/aws/aws-sdk-go

go 1.26.0
