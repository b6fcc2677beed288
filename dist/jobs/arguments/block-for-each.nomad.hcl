# One network block for each network. Nomad merges the CNI arguments of all blocks,
# and otherwise uses only the first block.
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
