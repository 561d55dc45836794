// Command setpoint recommends replica counts as the Kubernetes
// HorizontalPodAutoscaler controller would: as a service (serve), once
// (recommend), in words (explain), from recordings (replay) and in virtual time (simulate).
package main

import "github.com/setpoint-dev/setpoint/cmd/internal/cli"

func main() { cli.Main(newRoot()) }
