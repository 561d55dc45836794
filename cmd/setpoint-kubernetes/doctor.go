package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/agentcmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/cmd/internal/managerflags"
)

func newDoctor() *cobra.Command {
	s := defaultAgentSettings()
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check what the agent needs, and print what to do about problems",
		Long: agentcmd.DoctorLong("the API server, the agent's rights in the cluster, the metrics APIs, and\nother controllers of the same objects"),
		Example: `  setpoint-kubernetes doctor --cluster=demo --source=hpa --server=setpoint:9090 --token-file=token
  kubectl -n setpoint exec deploy/setpoint-agent -- setpoint-kubernetes doctor`,
		Args: cli.UsageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.Apply(cmd.Flags(), os.Environ()); err != nil {
				return cli.BadInput(err)
			}
			if err := s.validate(); err != nil {
				return cli.BadInput(err)
			}
			return s.RunDoctor(cmd)
		},
	}
	s.bind(cmd.Flags())
	config.AddFlag(cmd.Flags())
	managerflags.Bind(cmd.Flags(), managerflags.Agent)
	return cmd
}
