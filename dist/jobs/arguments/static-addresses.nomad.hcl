# Each allocation has the static address of its index: the first 10.89.200.0, the
# second 10.89.200.1.
job "static-addresses" {
  group "db" {
    count = 2
    network {
      mode = "cni/multi"
      cni {
        args = {
          networks = jsonencode([{ name = "storage", ips = ["10.89.200.${NOMAD_ALLOC_INDEX}/16"] }])
        }
      }
    }

    task "show" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "ip -brief address show net1; exec sleep 1000000"]
      }
      resources {
        cpu    = 20
        memory = 20
      }
    }
  }
}
