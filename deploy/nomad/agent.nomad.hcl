# The agent as a job of the cluster whose groups it scales:
#
#   nomad acl policy apply -namespace default -job setpoint-agent setpoint-agent deploy/nomad/agent.policy.hcl
#   nomad job run -var image=registry.example.com/setpoint:dev -var server=setpoint.example.com:9090 deploy/nomad/agent.nomad.hcl
#
# It asks Nomad over the socket of its task, with the token of its own identity, which Nomad
# renews in its file. The service's token is the Nomad variable nomad/jobs/setpoint-agent:
#
#   nomad var put nomad/jobs/setpoint-agent token=…
variable "image" {
  type        = string
  description = "The image of setpoint, where the clients find it."
}

variable "server" {
  type        = string
  description = "host:port of the service, which must have a certificate that the system trusts."
}

variable "cluster" {
  type    = string
  default = "nomad"
}

job "setpoint-agent" {
  type = "service"

  group "agent" {
    # One acts, by the lock of a Nomad variable; the other one stands by.
    count = 2

    ephemeral_disk {
      sticky = true # what "status" shows is kept over an update
    }

    network {
      port "admin" {}
    }

    task "agent" {
      driver       = "docker"
      kill_timeout = "30s"

      identity {
        file = true
      }

      template {
        data        = "{{ with nomadVar \"nomad/jobs/setpoint-agent\" }}{{ .token }}{{ end }}"
        destination = "secrets/token"
        change_mode = "noop" # it is read again by itself
        perms       = "0444"
      }

      config {
        image   = var.image
        command = "agent"
        args    = ["nomad", "--config=${NOMAD_TASK_DIR}/agent.yaml"]
        ports   = ["admin"]
      }

      template {
        data        = <<-EOT
          cluster: ${var.cluster}
          server: ${var.server}
          token-file: {{ env "NOMAD_SECRETS_DIR" }}/token
          nomad-address: unix://{{ env "NOMAD_SECRETS_DIR" }}/api.sock
          nomad-token-file: {{ env "NOMAD_SECRETS_DIR" }}/nomad_token
          nomad-lock: setpoint/agent
          sources-file: {{ env "NOMAD_TASK_DIR" }}/sources.yaml
          state-dir: {{ env "NOMAD_ALLOC_DIR" }}/data
          admin-address: 0.0.0.0:{{ env "NOMAD_PORT_admin" }}
        EOT
        destination = "local/agent.yaml"
      }

      # What the blocks metric "NAME" { source = … } of groups may name: docs/guides/metric-sources.md.
      # Such as prom: {prometheus: {url: 'http://prometheus.example.com:9090'}}
      template {
        data        = <<-EOT
          sources: {}
        EOT
        destination = "local/sources.yaml"
      }

      # That of the resources below: it collects garbage before the limit.
      env {
        GOMEMLIMIT = "128MiB"
      }

      resources {
        cpu    = 200
        memory = 128
      }

      service {
        name     = "setpoint-agent"
        port     = "admin"
        provider = "nomad"

        check {
          type     = "http"
          path     = "/healthz"
          interval = "10s"
          timeout  = "2s"
        }
      }
    }
  }
}
