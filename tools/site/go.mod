// The program that makes the web site of the documents, apart so that its dependency
// stays out of allocnet's.
module github.com/allocnet/allocnet/tools/site

go 1.26.0

require github.com/yuin/goldmark v1.8.7
