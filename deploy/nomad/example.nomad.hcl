# A job that is scaled by its own CPU usage: nomad job run deploy/nomad/example.nomad.hcl
job "web" {
  group "web" {
    count = 2

    scaling {
      min = 2
      max = 10

      policy {
        setpoint {
          cpu = 60
        }
      }
    }

    task "app" {
      driver = "docker"

      config {
        image = "nginx:1.29"
      }

      resources {
        cpu    = 200
        memory = 128
      }
    }
  }
}
