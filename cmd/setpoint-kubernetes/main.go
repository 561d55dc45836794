// Command setpoint-kubernetes is the part of setpoint that talks to a Kubernetes cluster: the
// agent, and explain with --live. `setpoint agent kubernetes` and `setpoint explain --live` run
// it. Under the name kubectl-setpoint it is a plugin of kubectl.
package main

import (
	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/explaincmd"
)

func main() { cli.Main(newRoot()) }

func newRoot() *cobra.Command {
	return cli.Root(&cobra.Command{
		Use:   "setpoint-kubernetes",
		Short: "Scale the workloads of a Kubernetes cluster, and explain why",
		Long: `What of setpoint asks a Kubernetes cluster. "setpoint agent kubernetes" and
"setpoint explain --live" run it; as kubectl-setpoint on the PATH it is a plugin of kubectl.

Exit codes: 0 success; 1 failure, or a negative result (mismatch, not ready);
2 invalid flags or input.`,
	}, newAgent(), newDoctor(), explaincmd.New(readLive), cli.NewVersion(), newDocs())
}
