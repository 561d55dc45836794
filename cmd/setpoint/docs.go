//go:build !service

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/check"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/cmd/setpoint/serve"
	"github.com/setpoint-dev/setpoint/lint"
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

// lintedExample is what docs/reference/lint.md begins with, from the root of the repository.
const lintedExample = "examples/lint/web.yaml"

// lintDocument is docs/reference/lint.md, with what the command prints for the example.
func lintDocument() (string, error) {
	file, err := os.Open(lintedExample)
	if err != nil {
		return "", fmt.Errorf("to be run in the root of the repository: %w", err)
	}
	linter := lint.Linter{Options: func(own *setpointv1.RecommendOptions) *setpointv1.RecommendOptions { return own }}
	if err := errors.Join(linter.Read(lintedExample, file), file.Close()); err != nil {
		return "", err
	}
	findings, err := linter.Check(context.Background())
	if err != nil {
		return "", err
	}
	var shown strings.Builder
	err = lint.WriteText(&shown, findings, linter.Autoscalers(), linter.Invalid())
	return lint.Document(lintedExample, shown.String()), err
}
