# Of the API module's versions that the proxy has, none has all that Nomad 1.8.4 uses.
# That of Nomad 1.9.0 lacks a field, which tools/nomad-build.sh adds to a copy.
/^type JobsParseRequest struct {$/a\
	HCLv1 bool `json:"hclv1,omitempty"`
