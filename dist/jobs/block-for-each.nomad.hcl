# One network block for each network. Nomad uses only the first block, and the agent
# reads the others: job_networks = true.
job "block-for-each" {
  group "app" {
    network {
      mode = "cni/multi"
      port "http" {
        to = 8080
      }
    }
    network {
      mode = "cni/storage"
    }
    network {
      mode = "cni/vlan"
    }

    task "show" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "ip -brief address; exec sleep 1000000"]
      }
      resources {
        cpu    = 20
        memory = 20
      }
    }
  }
}
