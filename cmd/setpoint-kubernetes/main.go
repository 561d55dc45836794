// Command setpoint-kubernetes is the part of setpoint that talks to a Kubernetes cluster: the
// agent, and explain with --live. `setpoint agent kubernetes` and `setpoint explain --live` run
// it. Under the name kubectl-setpoint it is a plugin of kubectl.
package main

import (
	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/agentcmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/explaincmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/fleetcmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/overridecmd"
)

func main() { cli.Main(newRoot()) }

func newRoot() *cobra.Command {
	return cli.Root(&cobra.Command{
		Use:   "setpoint-kubernetes",
		Short: "Scale the workloads of a Kubernetes cluster, and explain why",
		Long: `Commands for a Kubernetes cluster: run the agent, show its status, check a new
installation, explain, override, fleets.
"setpoint agent kubernetes" and "setpoint explain --live" run it; as kubectl-setpoint on
the PATH it is a plugin of kubectl.

Exit codes: 0 success; 1 failure, or a negative result (mismatch, not ready);
2 invalid flags or input; 78 invalid settings (flags, variables, config file) of agent
or doctor.`,
	}, append(agentcmd.New(newProgram()), explaincmd.New(readLive), overridecmd.New(), fleetcmd.New(), cli.NewVersion(), newDocs())...)
}
