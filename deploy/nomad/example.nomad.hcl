# A job that is scaled by its own CPU usage, without an image:
#
#   nomad job run -detach -var load=20000 deploy/nomad/example.nomad.hcl
#   nomad job run -detach -preserve-counts -var load=0 deploy/nomad/example.nomad.hcl
#
# Without -preserve-counts, "nomad job run" sets the counts of the file, here min.
variable "load" {
  type        = number
  default     = 0
  description = "How often a task counts, ten times a second: 20000 is a few percent of a core, and far above what it asks for."
}

variable "driver" {
  type        = string
  default     = "raw_exec"
  description = "raw_exec, which clients must enable except with -dev, or exec."
}

job "web" {
  group "web" {
    scaling {
      min = 1
      max = 5

      policy {
        setpoint {
          cpu = 60 # percent of resources.cpu

          behavior {
            scaleDown {
              stabilizationWindowSeconds = 30
            }
          }

          stages {
            windowThroughFailures = true # what follows an outage of metrics is not obeyed at once
          }
        }
      }
    }

    task "app" {
      driver = var.driver

      config {
        command = "/bin/sh"
        args    = ["-c", "while :; do i=0; while test $i -lt ${var.load}; do i=$((i+1)); done; sleep 0.1; done"]
      }

      resources {
        cpu    = 100
        memory = 32
      }
    }
  }
}
