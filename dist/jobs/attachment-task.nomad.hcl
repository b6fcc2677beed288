job "db" {
  group "db" {
    network {
      mode = "bridge"
    }

    # Attaches the group to the network "storage" before the main task starts,
    # and detaches it after the main task has stopped.
    task "storage-net" {
      driver = "allocnet"
      lifecycle {
        hook    = "prestart"
        sidecar = true
      }
      config {
        network "storage" {
          interface = "net1"
        }
      }
      service {
        name         = "db-repl"
        provider     = "nomad"
        address_mode = "driver" # the address of storage-net
        port         = 5433
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }

    task "db" {
      driver = "exec"
      config {
        command = "/bin/busybox"
        args    = ["httpd", "-f", "-p", "5433"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
