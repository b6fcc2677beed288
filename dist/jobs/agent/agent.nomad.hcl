# The agent on every client, as a system job. It has no token: it uses its workload
# identity, which Nomad renews. The clients have allocnet and allocnet-cni installed, and
# the driver raw_exec enabled, because the agent works on the namespaces of the host. If
# ACLs are enabled, the job needs the policy in policy.hcl:
#
#   nomad acl policy apply -namespace default -job allocnet-agent allocnet-agent policy.hcl
#   nomad job run agent.nomad.hcl
#
# Do not run the agent of the packages as well: systemctl disable --now allocnet.service allocnet.socket
variable "program" {
  description = "path of allocnet on the clients"
  default     = "/usr/bin/allocnet"
}

variable "config" {
  description = "further configuration of the agent, for example a block multi"
  default     = ""
}

job "allocnet-agent" {
  type     = "system"
  priority = 90

  group "agent" {
    restart {
      attempts = 10
      interval = "5m"
      delay    = "5s"
      mode     = "delay"
    }

    task "agent" {
      driver       = "raw_exec"
      kill_signal  = "SIGTERM"
      kill_timeout = "30s" # the limit of a client unless it sets max_kill_timeout

      config {
        command = var.program
        args    = ["agent", "--config", "${NOMAD_TASK_DIR}/agent.hcl"]
      }

      identity {
        file = true
      }

      template {
        destination = "local/agent.hcl"
        data        = <<-CONFIG
          nomad {
            address      = "unix://{{ env "NOMAD_SECRETS_DIR" }}/api.sock"
            token_file   = "{{ env "NOMAD_SECRETS_DIR" }}/nomad_token"
            node_id      = "{{ env "node.unique.id" }}"
            events       = true
            metadata     = true
            job_networks = true
          }
          limits {
            drain_timeout = "25s"
          }
          ${var.config}
        CONFIG
      }

      resources {
        cpu    = 100
        memory = 128
      }
    }
  }
}
