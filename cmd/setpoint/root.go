package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "setpoint",
		Short: "How many replicas should this workload have now, and why?",
		Long: `Setpoint answers how many replicas a workload should have now, and why, exactly
as the Kubernetes HorizontalPodAutoscaler controller would.

Exit codes: 0 all right; 1 it failed, or the answer is no; 2 the command line or
the input is not right.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q; see %s --help", args[0], cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return badInput(errors.New(err.Error() + "; see " + cmd.CommandPath() + " --help"))
	})
	root.AddCommand(newServe(), newRecommend(), newExplain(), newReplay(), newTargets(), newToken(), newAgent(), newHealth(), newVersion(), newDocs())
	for _, cmd := range append(root.Commands(), root) {
		cmd.Args = usageArgs(cmd.Args)
	}
	return root
}

// usageArgs marks errors about arguments as the user's.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check == nil {
			check = cobra.ArbitraryArgs
		}
		return badInput(check(cmd, args))
	}
}

// open opens a file that the user named; "-" is standard input.
func open(cmd *cobra.Command, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, badInput(err)
	}
	return file, nil
}
