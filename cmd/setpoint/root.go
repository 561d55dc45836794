package main

import (
	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/explaincmd"
)

func newRoot() *cobra.Command {
	return cli.Root(&cobra.Command{
		Use:   "setpoint",
		Short: "How many replicas should this workload have now, and why?",
		Long: `Setpoint answers how many replicas a workload should have now, and why, exactly
as the Kubernetes HorizontalPodAutoscaler controller would.

Exit codes: 0 all right; 1 it failed, or the answer is no; 2 the command line or
the input is not right.`,
	}, newServe(), newRecommend(), explaincmd.New(explainElsewhere), newReplay(), newTargets(), newToken(), newAgent(), newHealth(), cli.NewVersion(), newDocs())
}
