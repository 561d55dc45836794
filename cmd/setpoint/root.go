package main

import (
	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/overridecmd"
	"github.com/setpoint-dev/setpoint/cmd/setpoint/serve"
	"github.com/setpoint-dev/setpoint/cmd/setpoint/targets"
)

func newRoot() *cobra.Command {
	root := cli.Root(&cobra.Command{
		Use:   "setpoint",
		Short: "How many replicas should this workload have now, and why?",
		Long: `Setpoint answers how many replicas a workload should have now, and why, exactly
as the Kubernetes HorizontalPodAutoscaler controller would.` + about + `

Exit codes: 0 success; 1 failure, or a negative result (mismatch, not ready);
2 invalid flags or input; 78 invalid settings (flags, variables, config file) of serve
or an agent.`,
	}, append(append(others(), targets.Commands()...), serve.New(), overridecmd.New(), newToken(), serve.NewHealth(), cli.NewVersion())...)
	cli.Group(root, "Run", "serve", "agent", "health", "token")
	cli.Group(root, "Decide and explain", "recommend", "explain", "replay")
	cli.Group(root, "Try specs", "check", "lint", "simulate", "tune", "backtest")
	cli.Group(root, "Look at a server", "targets", "specs", "fleet", "override")
	return root
}
