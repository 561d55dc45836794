// Command setpoint-nomad scales the task groups of Nomad as a server recommends. `setpoint agent
// nomad` runs it.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/agentcmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
)

func main() { cli.Main(newRoot()) }

func newRoot() *cobra.Command {
	return cli.Root(&cobra.Command{
		Use:   "setpoint-nomad",
		Short: "Scale the task groups of Nomad",
		Long: `Commands for Nomad: run the agent, show its status, check a new installation.
"setpoint agent nomad" runs the agent.

Exit codes: 0 success; 1 failure; 2 invalid flags or input;
78 invalid settings (flags, variables, config file) of agent or doctor.`,
	}, append(agentcmd.New(newProgram(os.Getenv)), newTranslate(), newDocs(), cli.NewVersion())...)
}
