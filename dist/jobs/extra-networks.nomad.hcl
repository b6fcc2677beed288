# A service with a published port on the main network of "multi", and two extra
# networks: net1 on "storage", and data0 on "vlan". The task reads its addresses
# from local/networks.json. The agent reads the networks from meta: job_networks = true.
job "extra-networks" {
  group "web" {
    meta = {
      "allocnet.networks" = "storage,vlan@data0"
    }
    network {
      mode = "cni/multi"
      port "http" {
        to = 8080
      }
    }

    task "show" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "ip -brief address; cat local/networks.json; exec sleep 1000000"]
      }
      template {
        source      = "${NOMAD_ALLOC_DIR}/network-status.json"
        destination = "local/networks.json"
      }
      resources {
        cpu    = 20
        memory = 20
      }
    }
  }
}
