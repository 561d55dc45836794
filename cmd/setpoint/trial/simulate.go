//go:build !service

package trial

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
	_ "time/tzdata" // scenarios name time zones, and images of one program have none

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/explaincmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/specfile"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/report"
	"github.com/setpoint-dev/setpoint/simulation/scenario"
)

// The forms of setpoint simulate besides a table and JSON.
const (
	asCSV  = "csv"
	asSVG  = "svg"
	asHTML = "html"
)

// asK6 is what the load is exported as.
const asK6 = "k6"

// maxSpecs bounds the specs that are compared: each is a panel of the picture.
const maxSpecs = 10

// simulateCommand holds the flags of setpoint simulate.
type simulateCommand struct {
	file    string
	compare bool
	export  string
	seed    *uint64        // nil: the scenario's
	data    []byte         // of file, once it is read
	inputs  []report.Input // the specs, for pages
	options explaincmd.Options
	output  *cli.OutputFlag
	bar     *cli.Progress
}

func newSimulate() *cobra.Command {
	c := &simulateCommand{output: cli.NewOutputFlag(cli.AsTable, cli.AsJSON, asCSV, asSVG, asHTML)}
	cmd := &cobra.Command{
		Use:   "simulate -f SCENARIO SPEC...",
		Short: "Run autoscalers in virtual time against a simulated workload",
		Long: `Run HorizontalPodAutoscalers in virtual time: a scenario describes the load, how
pods start and serve it, and what they use; every decision is the production engine's.
The same files and seed give the same result on every machine.

SPEC is a file with one spec: a manifest of a HorizontalPodAutoscaler or Autoscaler, a
stored spec, a request, or the spec itself. With --compare several run side by side under
the same load, seed and events.

A scenario with a fleet has several clusters, which one spec scales: by Setpoint's rules
for fleets, by a model of what Karmada documents, and by an autoscaler in each cluster.

With --export=k6 no autoscaler runs: the scenario's load is written as a k6 script.

Exits with 2 if a file is invalid, and with 1 if a simulation is too large.`,
		Example: "  setpoint simulate -f scenario.yaml hpa.yaml\n  setpoint simulate -f scenario.yaml --compare hpa.yaml faster.yaml\n  setpoint simulate -f scenario.yaml -o html hpa.yaml > simulation.html",
		Args: func(cmd *cobra.Command, args []string) error {
			if c.export != "" {
				return nil // run says what is wrong
			}
			return cobra.MinimumNArgs(1)(cmd, args)
		},
		RunE: c.run,
	}
	flags := cmd.Flags()
	flags.StringVarP(&c.file, "file", "f", "", "`file` of the scenario, - for standard input (required)")
	flags.BoolVar(&c.compare, "compare", false, "run several specs side by side")
	flags.StringVar(&c.export, "export", "", "write the scenario's load in this `form` and run nothing: k6")
	c.bindSeed(flags, "`number` that replaces the scenario's seed")
	flags.VarP(c.output, "output", "o", "form of the output: table, json (lines), csv, svg or html")
	c.options.Bind(flags)
	return cmd
}

func (c *simulateCommand) bindSeed(flags *pflag.FlagSet, usage string) {
	flags.Func("seed", usage, func(text string) error {
		seed, err := strconv.ParseUint(text, 10, 53)
		if err != nil {
			return fmt.Errorf("must be a whole number between 0 and %d", 1<<53-1)
		}
		c.seed = &seed
		return nil
	})
}

func (c *simulateCommand) run(cmd *cobra.Command, specs []string) error {
	switch {
	case c.file == "":
		return cli.BadInput(errors.New("--file is required; see setpoint simulate --help"))
	case c.export != "" && c.export != asK6:
		return cli.BadInput(fmt.Errorf("--export: %q is not %s", c.export, asK6))
	case c.export != "" && (len(specs) > 0 || c.compare || cmd.Flags().Changed("output")):
		return cli.BadInput(errors.New("--export writes the load of the scenario, without SPEC, --compare and --output"))
	case len(specs) > 1 && !c.compare:
		return cli.BadInput(fmt.Errorf("%d specs are given: --compare runs them side by side", len(specs)))
	case len(specs) < 2 && c.compare:
		return cli.BadInput(errors.New("--compare needs at least two specs"))
	case len(specs) > maxSpecs:
		return cli.BadInput(fmt.Errorf("%d specs are given, at most %d can be compared", len(specs), maxSpecs))
	}
	world, err := c.readScenario(cmd)
	if err != nil {
		return err
	}
	if f := world.Fleet; f != nil {
		switch {
		case c.compare:
			return cli.BadInput(fmt.Errorf("%s: --compare: a scenario with a fleet compares rules of one spec", c.file))
		case c.export != "" && slices.ContainsFunc(f.Members, func(m simulation.FleetMember) bool { return m.Own != nil }):
			return cli.BadInput(fmt.Errorf("%s: --export: members have load of their own, which is not one load", c.file))
		}
	}
	if c.export == asK6 {
		return cli.BadInput(report.WriteK6(cmd.OutOrStdout(), c.file, world))
	}
	var read []simulation.Column
	var all []*simulation.Autoscaler
	var problems []error
	for _, name := range specs {
		a, err := c.readAutoscaler(cmd, name)
		read, all, problems = append(read, simulation.Column{Name: name, Autoscaler: a}), append(all, a), append(problems, err)
	}
	if err := c.paced(world, all...); err != nil {
		problems = append(problems, err)
	}
	for i := range read {
		if problems[i] == nil {
			if err := read[i].Check(world); err != nil {
				problems[i] = cli.BadInput(fmt.Errorf("%s with %s: %w", c.file, read[i].Name, err))
			}
		}
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	defer c.bar.Clear()
	return c.simulate(cmd, world, world.Columns(read))
}

// paced is PacedBy.
func (c *simulateCommand) paced(world *simulation.Scenario, all ...*simulation.Autoscaler) error {
	if err := world.PacedBy(all...); err != nil {
		return cli.BadInput(fmt.Errorf("%s: loop.syncPeriod: %w", c.file, err))
	}
	return nil
}

// readScenario reads the scenario, and the files that it names from beside it. What these don't
// cover is told.
func (c *simulateCommand) readScenario(cmd *cobra.Command) (*simulation.Scenario, error) {
	world, recorded, err := c.readRecorded(cmd)
	if err != nil || len(recorded.Files) == 0 {
		return world, err
	}
	if recorded.NoNumbers > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "setpoint: %s: samples of recorded load without a value are left out: %d\n", c.file, recorded.NoNumbers)
	}
	if n := len(recorded.Gaps); n > 0 {
		longest := slices.MaxFunc(recorded.Gaps, func(a, b scenario.Gap) int { return cmp.Compare(a.To-a.From, b.To-b.From) })
		fmt.Fprintf(cmd.ErrOrStderr(), "setpoint: %s: recorded load covers %.1f %% of the time; straight lines fill the gaps (%d, the longest %s at %s)\n",
			c.file, 100*recorded.Covered.Seconds()/world.Duration.Seconds(), n, report.Span(longest.To-longest.From), world.Start.Add(longest.From).Format(time.RFC3339))
	}
	return world, nil
}

// readRecorded is readScenario, with what recorded load covers.
func (c *simulateCommand) readRecorded(cmd *cobra.Command) (*simulation.Scenario, *scenario.Recorded, error) {
	var err error
	if c.data, err = cli.ReadWithin(cmd, c.file, scenario.MaxScenarioBytes); err != nil {
		return nil, nil, err
	}
	return c.parse(cmd, c.seed)
}

// redrawn is the scenario that was read, with another seed.
func (c *simulateCommand) redrawn(cmd *cobra.Command, seed uint64) (*simulation.Scenario, error) {
	world, _, err := c.parse(cmd, &seed)
	return world, err
}

func (c *simulateCommand) parse(cmd *cobra.Command, seed *uint64) (*simulation.Scenario, *scenario.Recorded, error) {
	data := c.data
	world, recorded, err := scenario.ReadRecorded(cmd.Context(), c.file, data, seed, func(name string) ([]byte, error) {
		if c.file != "-" && !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(c.file), name)
		}
		return cli.ReadWithin(cmd, name, scenario.MaxLoadBytes)
	})
	if err != nil {
		if specPattern.Match(data) {
			err = fmt.Errorf("%s: is a spec, not a scenario, which belongs there", c.file)
		}
		return nil, nil, cli.BadInput(err)
	}
	return world, recorded, nil
}

// specPattern matches what a file with a spec has and no scenario.
var specPattern = regexp.MustCompile(`(?m)^(apiVersion|kind|spec|maxReplicas):`)

func (c *simulateCommand) readAutoscaler(cmd *cobra.Command, name string) (*simulation.Autoscaler, error) {
	read, err := specfile.Read(cmd, name)
	if err != nil {
		return nil, err
	}
	options := c.options.Over(read.Options())
	a, err := read.Engine(options)
	if err != nil || c.output == nil || c.output.Form != asHTML {
		return a, cli.BadInput(err)
	}
	// The spec alone: the file may have anything beside it, and pages are sent around.
	text, err := protojson.Marshal(&setpointv1.TargetSpec{Spec: read.Stored.GetSpec(), Options: options, Stages: read.Stored.GetStages()})
	if err == nil {
		text, err = yaml.JSONToYAML(text)
	}
	c.inputs = append(c.inputs, report.Input{Name: name, Text: string(text)})
	return a, err
}

// simulate runs all autoscalers and writes their results, evaluations as they happen.
func (c *simulateCommand) simulate(cmd *cobra.Command, s *simulation.Scenario, runs []simulation.Column) error {
	out := cmd.OutOrStdout()
	all := &report.Report{Name: c.file, Scenario: s, Inputs: append([]report.Input{{Name: c.file, Text: string(c.data)}}, c.inputs...)}
	var lines *report.JSON
	var table *report.CSV
	var err error
	switch c.output.Form {
	case cli.AsJSON:
		lines = report.NewJSON(out)
	case asCSV:
		if table, err = report.NewCSV(out); err != nil {
			return err
		}
	}
	c.watch(cmd, int64(len(runs))*int64(s.Duration/s.Loop.SyncPeriod))
	for _, p := range runs {
		run := report.Run{Name: p.Name}
		if c.output.Form == asSVG || c.output.Form == asHTML {
			run.Plot = report.NewPlot(s.Duration)
		}
		run.Result, err = p.Run(cmd.Context(), s, simulation.Limits{Actions: true}, func(step *simulation.Step) error {
			switch {
			case lines != nil:
				err = lines.Step(run.Name, step)
			case table != nil:
				err = table.Step(run.Name, step)
			case run.Plot != nil:
				run.Plot.Add(step)
			}
			c.bar.Add(1)
			return errors.Join(err, cmd.Context().Err())
		})
		if err != nil {
			return fmt.Errorf("%s: %w", run.Name, err)
		}
		all.Runs = append(all.Runs, run)
		if lines != nil {
			if err := lines.Figures(s, &run); err != nil {
				return err
			}
		}
	}
	c.bar.Clear()
	switch c.output.Form {
	case cli.AsTable:
		return report.WriteTable(out, all)
	case asCSV:
		return table.Close()
	case asSVG:
		return report.WriteSVG(out, all)
	case asHTML:
		return report.WriteHTML(out, all)
	}
	return nil
}

// watch shows how far it is, once it takes more than a moment.
func (c *simulateCommand) watch(cmd *cobra.Command, steps int64) {
	if steps >= 10_000 {
		c.bar = cli.NewProgress(cmd.ErrOrStderr(), "evaluations", steps)
	}
}
