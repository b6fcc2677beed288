namespace "*" {
  capabilities = ["read-job"]
}

node {
  policy = "write" # "read" without metadata
}

agent {
  policy = "read"
}
