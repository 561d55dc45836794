// Command setpoint recommends replica counts as the Kubernetes
// HorizontalPodAutoscaler controller would: as a service (serve), once
// (recommend), in words (explain) and from recordings (replay).
package main

import "github.com/setpoint-dev/setpoint/cmd/internal/cli"

func main() { cli.Main(newRoot()) }
