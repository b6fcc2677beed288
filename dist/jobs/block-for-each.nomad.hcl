# A block for each network. Nomad itself looks only at the first; it merges the
# arguments of the others into its own, from which each network gets what it is
# told.
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
      cni {
        args = {
          "networks.storage" = jsonencode({ interface = "disk0", mtu = 1400 })
        }
      }
    }
    network {
      mode = "cni/vlan"
      cni {
        args = {
          "networks.vlan" = ""
        }
      }
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
