# Networks with options: the allocation has a static address on "storage", in the
# interface disk0 with an MTU of 1400. Meta has no variables of the allocation, so the group
# has one allocation. The agent reads the networks from meta: job_networks = true.
job "static-address" {
  group "db" {
    meta = {
      "allocnet.networks" = jsonencode([{ name = "storage", interface = "disk0", mtu = 1400, ips = ["10.89.200.1/16"] }])
    }
    network {
      mode = "cni/multi"
    }

    task "show" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "ip -brief address show disk0; exec sleep 1000000"]
      }
      resources {
        cpu    = 20
        memory = 20
      }
    }
  }
}
