// Command setpoint-swarm scales the services of a Docker Swarm as a server recommends. `setpoint
// agent swarm` runs it.
package main

import (
	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/agentcmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
)

func main() { cli.Main(newRoot()) }

func newRoot() *cobra.Command {
	return cli.Root(&cobra.Command{
		Use:   "setpoint-swarm",
		Short: "Scale the services of a Docker Swarm",
		Long: `Setpoint's programs for Docker Swarm: the agent, which needs the engine of a manager,
and node, which runs on each node and reports the usage of its tasks to the agent.
"setpoint agent swarm" runs the agent.

Exit codes: 0 success; 1 failure; 2 invalid flags or input;
78 invalid settings (flags, variables, config file) of agent, node or doctor.`,
	}, append(agentcmd.New(newProgram()), newNode(), newDocs(), cli.NewVersion())...)
}
