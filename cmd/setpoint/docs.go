//go:build !service

package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/check"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/cmd/setpoint/serve"
)

// documents are what `setpoint docs` prints of serve.
var documents = map[string]func(*pflag.FlagSet) (string, error){
	"example-config": func(flags *pflag.FlagSet) (string, error) { return config.Example(flags), nil },
	"metrics":        func(*pflag.FlagSet) (string, error) { return serve.MetricsDocument() },
	"lint":           func(*pflag.FlagSet) (string, error) { return lintDocument() },
	"check":          func(*pflag.FlagSet) (string, error) { return check.Document(), nil },
}

// newDocs prints documents that are generated from the program.
func newDocs() *cobra.Command {
	return &cobra.Command{
		Use:       "docs {example-config|metrics|lint|check}",
		Short:     "Print generated documents",
		Hidden:    true,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"example-config", "metrics", "lint", "check"},
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := documents[args[0]](serve.New().Flags())
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
	}
}
