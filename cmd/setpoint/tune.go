//go:build !service

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/setpoint/simulate"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/tune"
)

// asYAML is the form of the chosen spec alone.
const asYAML = "yaml"

// tuneCommand holds the flags of setpoint tune.
type tuneCommand struct {
	scenario   simulateCommand // its scenario, seed and options
	candidates int
	least      int32
	workers    int
	maxShort   float64
	maxLost    float64
	lostWanted bool
	reversals  float64
	output     *cli.OutputFlag
}

func newTune() *cobra.Command {
	c := &tuneCommand{output: cli.NewOutputFlag(cli.AsText, cli.AsJSON, asYAML)}
	cmd := &cobra.Command{
		Use:   "tune -f SCENARIO SPEC",
		Short: "Search for the cheapest spec that reaches a goal in a scenario",
		Long: `Search for the cheapest spec that reaches a goal in a scenario of setpoint simulate:
targets, tolerances, windows, policies and minReplicas. The production engine runs each
candidate. The search uses the first half of the time; the second half confirms the result.

The same files, seed and candidates give the same result, on any number of processors.

Exits with 1 if no candidate reaches the goal in both halves, and with 2 if a file is
invalid.`,
		Example: "  setpoint tune -f scenario.yaml hpa.yaml --max-short=0.5\n  setpoint tune -f scenario.yaml hpa.yaml --max-short=0.5 -o yaml > tuned.yaml",
		Args:    cobra.ExactArgs(1),
		RunE:    c.run,
	}
	flags := cmd.Flags()
	flags.StringVarP(&c.scenario.file, "file", "f", "", "`file` of the scenario, - for standard input (required)")
	flags.Uint64Var(&c.scenario.seed, "seed", 0, "`number` that replaces the scenario's seed and selects other candidates")
	flags.IntVar(&c.candidates, "candidates", tune.DefaultCandidates, "number of specs to try")
	flags.Int32Var(&c.least, "least-replicas", 0, "smallest minReplicas to try; 0 means that of the spec")
	flags.IntVar(&c.workers, "workers", 0, "concurrent runs; 0 means one per processor. It does not affect the result")
	flags.Float64Var(&c.maxShort, "max-short", 0.5, "goal: maximum time short of capacity, `percent`")
	flags.Float64Var(&c.maxLost, "max-lost", 0, "goal: maximum load lost for good, `percent` (default: any)")
	flags.Float64Var(&c.reversals, "max-reversals", 20, "goal: maximum reversals per day")
	flags.VarP(c.output, "output", "o", "form of the output: text, json or yaml (the chosen spec)")
	c.scenario.options.Bind(flags)
	return cmd
}

func (c *tuneCommand) run(cmd *cobra.Command, args []string) error {
	if c.scenario.file == "" {
		return cli.BadInput(errors.New("--file is required; see setpoint tune --help"))
	}
	if c.candidates < 1 || c.candidates > tune.MaxCandidates {
		return cli.BadInput(fmt.Errorf("--candidates: is %d, must be between 1 and %d", c.candidates, tune.MaxCandidates))
	}
	goal := tune.Goal{MaxShort: c.maxShort / 100, MaxReversals: &c.reversals}
	lost := c.maxLost / 100
	if c.lostWanted = cmd.Flags().Changed("max-lost"); c.lostWanted {
		goal.MaxLost = &lost
	}
	if c.least < 0 {
		return cli.BadInput(fmt.Errorf("--least-replicas: is %d, must be at least 0", c.least))
	}
	if !(c.maxShort >= 0 && c.maxLost >= 0 && c.reversals >= 0) {
		return cli.BadInput(errors.New("goals must be at least 0"))
	}
	scenario, err := c.scenario.readScenario(cmd)
	if err != nil {
		return err
	}
	read, err := readSpec(cmd, args[0])
	if err != nil {
		return err
	}
	a, err := read.Engine(c.scenario.options.Over(read.Options()))
	if err != nil {
		return cli.BadInput(err)
	}
	if err := simulation.Check(scenario, a); err != nil {
		return cli.BadInput(fmt.Errorf("%s with %s: %w", c.scenario.file, args[0], err))
	}
	bar := cli.NewProgress(cmd.ErrOrStderr(), "specs tried", 0)
	result, err := tune.Run(cmd.Context(), scenario, a, goal, tune.Options{
		Candidates: c.candidates, LeastReplicas: c.least, Seed: scenario.Seed, Workers: c.workers, Progress: func(int) { bar.Add(1) },
	})
	bar.Clear()
	if err != nil {
		return err
	}
	return c.write(cmd.OutOrStdout(), scenario, read.Object, result)
}

// tunedJSON is -o json.
type tunedJSON struct {
	Given    candidateJSON   `json:"given"`
	Best     *candidateJSON  `json:"best,omitempty"`
	Front    []candidateJSON `json:"front"`
	Tried    int             `json:"tried"`
	TooLarge int             `json:"tooLarge"`
	// SplitSeconds is the offset of the part that confirms.
	SplitSeconds float64 `json:"splitSeconds"`
}

type candidateJSON struct {
	Spec      json.RawMessage `json:"spec"`
	Changes   []string        `json:"changes"`
	Searched  scoreJSON       `json:"searched"`
	Confirmed scoreJSON       `json:"confirmed"`
	Reached   bool            `json:"reached"`
	Holds     bool            `json:"holds"`
}

type scoreJSON struct {
	ShortShare      float64 `json:"shortShare"`
	LostShare       float64 `json:"lostShare"`
	ReversalsPerDay float64 `json:"reversalsPerDay"`
	AveragePods     float64 `json:"averagePods"`
}

func newCandidateJSON(object *autoscalingv2.HorizontalPodAutoscaler, given, c *tune.Candidate) (candidateJSON, error) {
	spec, err := json.Marshal(simulate.Tuned(object, &c.Spec).Spec)
	score := func(s tune.Score) scoreJSON { return scoreJSON{s.Short, s.Lost, s.Reversals, s.Cost} }
	return candidateJSON{
		Spec: spec, Changes: simulate.Changes(&given.Spec, &c.Spec), Searched: score(c.Searched), Confirmed: score(c.Confirmed),
		Reached: c.Reached, Holds: c.Holds,
	}, err
}

func (c *tuneCommand) write(w io.Writer, s *simulation.Scenario, object *autoscalingv2.HorizontalPodAutoscaler, r *tune.Result) error {
	var err error
	switch c.output.Form {
	case cli.AsJSON:
		err = writeTunedJSON(w, object, r)
	case asYAML:
		if r.Best != nil {
			err = writeManifest(w, object, r.Best)
		}
	default:
		err = c.writeText(w, s, object, r)
	}
	switch {
	case err != nil:
		return err
	case r.Best == nil:
		return fmt.Errorf("none of %d specs reaches the goal; raise --candidates or maxReplicas, or relax the goal", r.Tried)
	case !r.Best.Holds:
		return errors.New("the spec reaches the goal in the first half of the time, which was searched, but not in the second, which confirms")
	}
	return nil
}

func writeTunedJSON(w io.Writer, object *autoscalingv2.HorizontalPodAutoscaler, r *tune.Result) error {
	out := tunedJSON{Front: []candidateJSON{}, Tried: r.Tried, TooLarge: r.TooLarge, SplitSeconds: r.Split.Seconds()}
	var err error
	if out.Given, err = newCandidateJSON(object, &r.Given, &r.Given); err != nil {
		return err
	}
	if r.Best != nil {
		best, err := newCandidateJSON(object, &r.Given, r.Best)
		if err != nil {
			return err
		}
		out.Best = &best
	}
	for i := range r.Front {
		one, err := newCandidateJSON(object, &r.Given, &r.Front[i])
		if err != nil {
			return err
		}
		out.Front = append(out.Front, one)
	}
	return json.NewEncoder(w).Encode(&out)
}

func writeManifest(w io.Writer, object *autoscalingv2.HorizontalPodAutoscaler, c *tune.Candidate) error {
	tuned := simulate.Tuned(object, &c.Spec)
	// What belongs to a cluster's object is no part of a manifest.
	data, err := yaml.Marshal(map[string]any{
		"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
		"metadata": map[string]string{"name": object.Name, "namespace": object.Namespace}, "spec": tuned.Spec,
	})
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

func (c *tuneCommand) writeText(w io.Writer, s *simulation.Scenario, object *autoscalingv2.HorizontalPodAutoscaler, r *tune.Result) error {
	end := s.Start.Add(s.Duration)
	layout := "2006-01-02 15:04"
	fmt.Fprintf(w, "%s: %d specs tried, seed %d; searched %s to %s, confirmed up to %s\ngoal: at most %g %% of the time short of capacity",
		cli.Plain(c.scenario.file), r.Tried, s.Seed, s.Start.Format(layout), s.Start.Add(r.Split).Format(layout), end.Format(layout), c.maxShort)
	if c.lostWanted {
		fmt.Fprintf(w, ", %g %% of the load lost", c.maxLost)
	}
	fmt.Fprintf(w, ", %g reversals a day; then least cost\n\n", c.reversals)
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "\tsearched: pods\tshort\tlost\treversals a day\tconfirmed: pods\tshort\tchanges")
	row := func(name string, c *tune.Candidate) {
		changes := "–"
		if n := len(simulate.Changes(&r.Given.Spec, &c.Spec)); n > 0 {
			changes = fmt.Sprint(n)
		}
		fmt.Fprintf(table, "%s\t%.2f\t%.2f %%\t%.2f %%\t%.3g\t%.2f\t%.2f %%\t%s\n", name, c.Searched.Cost, c.Searched.Short*100, c.Searched.Lost*100, c.Searched.Reversals,
			c.Confirmed.Cost, c.Confirmed.Short*100, changes)
	}
	row("as it is", &r.Given)
	for i := range r.Front {
		row(fmt.Sprintf("front %d", i+1), &r.Front[i])
	}
	if r.Best != nil {
		row("chosen", r.Best)
	}
	if err := table.Flush(); err != nil || r.Best == nil {
		return err
	}
	fmt.Fprintf(w, "\nchosen: %.3g pods in place of %.3g (%+.1f %%); ", r.Best.Searched.Cost, r.Given.Searched.Cost, 100*(r.Best.Searched.Cost/r.Given.Searched.Cost-1))
	if r.Best.Holds {
		fmt.Fprintln(w, "the part that confirms reaches the goal, too")
	} else {
		fmt.Fprintln(w, "NOT CONFIRMED: the other part misses the goal")
	}
	for _, change := range simulate.Changes(&r.Given.Spec, &r.Best.Spec) {
		fmt.Fprintln(w, "  "+cli.Plain(change))
	}
	fmt.Fprintln(w)
	return writeManifest(w, object, r.Best)
}
