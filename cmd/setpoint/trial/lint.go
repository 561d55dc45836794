//go:build !service

package trial

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/lint"
)

// asSARIF is the form that code hosts read.
const asSARIF = "sarif"

// asRules counts the findings by rule.
const asRules = "rules"

// never is a severity that nothing has.
const never = "never"

// lintCommand holds the flags of setpoint lint.
type lintCommand struct {
	files  []string
	failOn *cli.OutputFlag
	output *cli.OutputFlag
	// only and ignored are lists of rules.
	only, ignored []string
	// scenario has the controller's options, too.
	scenario simulateCommand
}

func newLint() *cobra.Command {
	c := &lintCommand{
		output: cli.NewOutputFlag(cli.AsText, cli.AsJSON, asSARIF, asRules),
		failOn: cli.NewOutputFlag(string(lint.Warning), string(lint.Error), string(lint.Note), never),
	}
	cmd := &cobra.Command{
		Use:   "lint [-f] FILE...",
		Short: "Find likely mistakes in the specs of autoscalers",
		Long: `Find likely mistakes in the specs of autoscalers, and show the arithmetic with their
own numbers. Several rules run the production engine with the spec.
docs/reference/lint.md lists all rules.

FILE holds manifests, a list or kubectl's output, stored specs, requests, or the spec
itself; - is standard input. The rules also read
requests, limits, counts, probes and strategies of workloads in the files, and
VerticalPodAutoscalers, ScaledObjects of KEDA, PodDisruptionBudgets and LimitRanges. With --scenario,
a file of setpoint simulate, they also run the spec with that load, which may be recorded.

The annotation setpoint.dev/lint-ignore of an autoscaler names rules that are left out for
it, separated by commas; --ignore does so for all.

Exits with 1 if a finding is at least as severe as --fail-on, and with 2 if a file or a
spec is invalid.`,
		Example: "  setpoint lint hpa.yaml deployment.yaml\n  kubectl get hpa,deploy,pdb,limits -A -o yaml | setpoint lint -o rules -\n  setpoint lint --scenario load.yaml hpa.yaml deployment.yaml\n  setpoint lint -o sarif manifests/*.yaml > lint.sarif",
		Args: func(cmd *cobra.Command, files []string) error {
			if len(c.files) > 0 {
				return nil
			}
			return cobra.MinimumNArgs(1)(cmd, files)
		},
		RunE: func(cmd *cobra.Command, files []string) error { return c.run(cmd, append(c.files, files...)) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&c.files, "file", "f", nil, "another `FILE`, as other commands take it; repeatable")
	flags.Var(c.failOn, "fail-on", "least severity that fails: error, warning, note or never")
	flags.VarP(c.output, "output", "o", "form of the output: text, json (lines), sarif, or rules (how many of each)")
	flags.StringSliceVar(&c.only, "rule", nil, "look for these `rules` only")
	flags.StringSliceVar(&c.ignored, "ignore", nil, "leave these `rules` out")
	flags.StringVar(&c.scenario.file, "scenario", "", "`file` of a scenario in which the one autoscaler of the files is tried")
	c.scenario.options.Bind(flags)
	return cmd
}

func (c *lintCommand) run(cmd *cobra.Command, files []string) error {
	linter := &lint.Linter{Options: c.scenario.options.Over}
	var err error
	if linter.Ignore, err = c.leftOut(); err != nil {
		return err
	}
	var problems []error
	if c.scenario.file != "" {
		if linter.Scenario, err = c.scenario.readScenario(cmd); err != nil {
			return err
		}
	}
	var refused, findings []lint.Finding // refused are the problems
	for _, name := range files {
		file, err := cli.Open(cmd, name)
		if err == nil {
			err = errors.Join(linter.Read(name, file), file.Close())
		}
		problems, refused = append(problems, err), append(refused, lint.Refused(name, err)...)
	}
	if linter.Autoscalers() > 0 {
		if findings, err = linter.Check(cmd.Context()); errors.Is(err, lint.ErrTooMany) {
			return cli.BadInput(errors.Join(problems...))
		}
		if cmd.Context().Err() != nil {
			return err
		}
		problems, refused = append(problems, err), append(refused, lint.Refused("", err)...)
	} else if len(refused) == 0 {
		return cli.BadInput(errors.New("there is no autoscaler in the files"))
	}
	out := cmd.OutOrStdout()
	switch err = nil; c.output.Form {
	case cli.AsText:
		if linter.Autoscalers() > 0 {
			err = lint.WriteText(out, findings, linter.Autoscalers(), linter.Invalid())
		}
	case cli.AsJSON:
		err = lint.WriteJSON(out, append(findings, refused...))
	case asRules:
		err = lint.WriteRules(out, findings, linter.Autoscalers(), linter.Invalid())
	case asSARIF:
		err = lint.WriteSARIF(out, append(findings, refused...), cli.Version())
	}
	if err != nil {
		return fmt.Errorf("writing the findings: %w", err)
	}
	if err := errors.Join(problems...); err != nil {
		return cli.BadInput(err)
	}
	for _, f := range findings {
		if c.failOn.Form != never && f.Severity.AtLeast(lint.Severity(c.failOn.Form)) {
			return cli.ErrQuiet
		}
	}
	return nil
}

// leftOut are the rules that the flags leave out.
func (c *lintCommand) leftOut() ([]string, error) {
	out, err := lint.KnownRules(strings.Join(c.ignored, ","))
	if err != nil {
		return nil, cli.BadInput(fmt.Errorf("--ignore: %w", err))
	}
	only, err := lint.KnownRules(strings.Join(c.only, ","))
	if err != nil {
		return nil, cli.BadInput(fmt.Errorf("--rule: %w", err))
	}
	for i := range lint.Rules {
		if id := lint.Rules[i].ID; len(only) > 0 && !slices.Contains(only, id) {
			out = append(out, id)
		}
	}
	return out, nil
}
