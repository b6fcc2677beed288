# A service in the Consul service mesh, with a replication network. The sidecar proxy
# and the published port use the main network of "multi". Consul Connect accepts only
# one network block: its CNI arguments select the extra networks.
job "connect" {
  group "db" {
    network {
      mode = "cni/multi"
      port "metrics" {
        to = 9187
      }
      cni {
        args = {
          "networks.storage" = jsonencode({ interface = "repl0" })
        }
      }
    }

    service {
      name = "db"
      port = "5432"
      connect {
        sidecar_service {}
      }
    }

    task "db" {
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
