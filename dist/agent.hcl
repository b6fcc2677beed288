# The allocnet agent. All settings have defaults; see allocnet-agent(1) and
# /usr/share/doc/allocnet/docs/agent.md. Check with: allocnet agent --check-config

# hook        = "noop" # if the networks of this host are managed elsewhere
# conf_dir    = "/etc/allocnet/networks:/opt/cni/config"
# plugin_dirs = ["/opt/cni/bin", "/usr/lib/cni"]
# log_level   = "info"

# socket {
#   group = "nomad"
# }

# metrics {
#   listen = "127.0.0.1:9464"
# }

# nomad {
#   address      = "http://127.0.0.1:4646"
#   token_file   = "/etc/allocnet.d/nomad.token"
#   events       = true
#   metadata     = true
#   job_networks = true
# }
