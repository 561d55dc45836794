//go:build !service

package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/yaml"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/manifest"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/hpa"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/lint"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/restjson"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/tune"
)

// asYAML is the form of the chosen spec alone.
const asYAML = "yaml"

// ownKind is Setpoint's own kind of manifests.
const ownKind = "Autoscaler"

// unbounded says what a search can't tell.
const unbounded = "warning: whether a spec is enough is not known: nothing can be short in a scenario whose pods have no capacity and no limit of the cpu that load uses"

// unchanged says why the chosen spec is the given one.
const unchanged = "the spec as it is: none that passes is more than 5 % cheaper"

// maxReversals is one each second of a day.
const maxReversals = 86400

// tuneCommand holds the flags of setpoint tune.
type tuneCommand struct {
	scenario   simulateCommand // its scenario, seed and options
	candidates int
	least      int32
	workers    int
	vary       []string
	maxShort   float64
	maxLost    float64
	reversals  float64
	goal       tune.Goal
	output     *cli.OutputFlag
	// given is the file's object, as it was written; what is chosen has its form.
	given map[string]any
	// annotations are those of the manifest, with its stages.
	annotations map[string]string
	// stored is the given spec if the file has no manifest.
	stored *setpointv1.TargetSpec
}

func newTune() *cobra.Command {
	c := &tuneCommand{output: cli.NewOutputFlag(cli.AsText, cli.AsJSON, asYAML)}
	cmd := &cobra.Command{
		Use:   "tune -f SCENARIO SPEC",
		Short: "Search for the simplest cheap spec that reaches a goal in a scenario",
		Long: `Search for a cheap spec that reaches a goal in a scenario of setpoint simulate: targets,
tolerances, windows, policies and minReplicas, or what --vary names. The production engine
runs each candidate, with the stages of the file as they are. The search uses the first half of the time; in the second half a spec
must hold as it is, with another seed, with a tenth of its pods gone at the peak, and with
20 % more load. It may have no warning of setpoint lint that the given spec does not have.

Of the specs that pass and cost at most 5 % more than the cheapest of them the one with
the fewest changes is chosen.

The same files, seed and candidates give the same result, on any number of processors.

Exits with 1 if no candidate passes, and with 2 if a file is invalid.`,
		Example: "  setpoint tune -f scenario.yaml hpa.yaml --max-short=0.5\n  setpoint tune -f scenario.yaml hpa.yaml --max-short=0.5 -o yaml > tuned.yaml",
		Args:    cobra.ExactArgs(1),
		RunE:    c.run,
	}
	flags := cmd.Flags()
	flags.StringVarP(&c.scenario.file, "file", "f", "", "`file` of the scenario, - for standard input (required)")
	c.scenario.bindSeed(flags, "`number` that replaces the scenario's seed and selects other candidates")
	flags.StringSliceVar(&c.vary, "vary", nil, "`parts` of the spec to vary: target, minReplicas, tolerance, window, policies (default: all)")
	flags.IntVar(&c.candidates, "candidates", tune.DefaultCandidates, "number of specs to try")
	flags.Int32Var(&c.least, "least-replicas", 0, "smallest minReplicas to try; 0 means that of the spec")
	flags.IntVar(&c.workers, "workers", 0, "concurrent runs; 0 means one per processor. It does not affect the result")
	flags.Float64Var(&c.maxShort, "max-short", 0.5, "goal: maximum time short of capacity, `percent`")
	flags.Float64Var(&c.maxLost, "max-lost", 0, "goal: maximum load lost for good, `percent` (default: what the spec loses, and 0.01)")
	flags.Float64Var(&c.reversals, "max-reversals", 0, "goal: maximum reversals per day (default: those of the spec, and one a day)")
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
	c.goal.MaxShort = c.maxShort / 100
	if cmd.Flags().Changed("max-lost") {
		c.goal.MaxLost = new(c.maxLost / 100)
	}
	if cmd.Flags().Changed("max-reversals") {
		c.goal.MaxReversals = &c.reversals
	}
	for _, name := range c.vary {
		if !slices.Contains(tune.Names, name) {
			return cli.BadInput(fmt.Errorf("--vary: %q is none of %s", name, strings.Join(tune.Names, ", ")))
		}
	}
	if c.least < 0 {
		return cli.BadInput(fmt.Errorf("--least-replicas: is %d, must be at least 0", c.least))
	}
	for _, goal := range []struct {
		flag        string
		value, most float64
	}{{"max-short", c.maxShort, 100}, {"max-lost", c.maxLost, 100}, {"max-reversals", c.reversals, maxReversals}} {
		if !(goal.value >= 0 && goal.value <= goal.most) {
			return cli.BadInput(fmt.Errorf("--%s: is %g, must be between 0 and %g", goal.flag, goal.value, goal.most))
		}
	}
	scenario, err := c.scenario.readScenario(cmd)
	if err != nil {
		return err
	}
	data, err := cli.ReadWithin(cmd, args[0], manifest.MaxFileBytes)
	if err != nil {
		return err
	}
	read, err := hpa.ReadOne(args[0], bytes.NewReader(data))
	if err != nil {
		return cli.BadInput(err)
	}
	a, err := read.Engine(c.scenario.options.Over(read.Options()))
	if err != nil {
		return cli.BadInput(err)
	}
	_ = scenario.PacedBy(a) // one has one period
	if err := simulation.Check(scenario, a); err != nil {
		return cli.BadInput(fmt.Errorf("%s with %s: %w", c.scenario.file, args[0], err))
	}
	redrawn, err := c.scenario.redrawn(cmd, scenario.Seed+1)
	if err != nil {
		return err
	}
	_ = redrawn.PacedBy(a)
	if !scenario.Workload.Bounded() {
		fmt.Fprintln(cmd.ErrOrStderr(), unbounded)
	}
	bar := cli.NewProgress(cmd.ErrOrStderr(), "runs", 0)
	result, err := tune.Run(cmd.Context(), scenario, a, c.goal, tune.Options{
		Candidates: c.candidates, LeastReplicas: c.least, Seed: scenario.Seed, Workers: c.workers, Progress: bar.Of,
		Vary: c.vary, Redrawn: redrawn,
		Lint: func(ctx context.Context, a *simulation.Autoscaler, s *simulation.Scenario) ([]string, error) {
			return warnings(ctx, a, s, scenario.Start)
		},
	})
	bar.Clear()
	if input := (tune.InputError{}); errors.As(err, &input) {
		return cli.BadInput(fmt.Errorf("%s: %w", c.scenario.file, err))
	}
	if err != nil {
		return err
	}
	stages := read.Stages()
	switch c.given = written(data); c.given["kind"] {
	case nil:
		c.stored = read.Stored
	case ownKind:
		stages = nil // its spec has them
	}
	if c.annotations, err = annotationsOf(read.Object.Annotations, stages); err != nil {
		return err
	}
	if c.output.Form == asYAML && result.Best != nil && result.Best.Changes == 0 { // which the text says
		fmt.Fprintln(cmd.ErrOrStderr(), unchanged)
	}
	return c.write(cmd.OutOrStdout(), scenario, read.Object, result)
}

// warnings are the rules of which lint warns by an instant; in a scenario that is too large for it, those without.
func warnings(ctx context.Context, a *simulation.Autoscaler, s *simulation.Scenario, now time.Time) (rules []string, err error) {
	of := &lint.Subject{Name: "tuned", Autoscaler: a, Scenario: s, Ignore: []string{"replicas-in-manifest"}, Stages: a.Stages, Now: now}
	if b := a.Spec.Behavior; b != nil {
		of.Behavior, of.Up, of.Down = true, len(b.ScaleUp.Policies) > 0, len(b.ScaleDown.Policies) > 0
	}
	if s != nil {
		of.Workload = &lint.Workload{Applied: true, Containers: lint.ContainersOf(&s.Workload)}
	}
	found, err := lint.Check(ctx, of)
	if errors.Is(err, simulation.ErrTooMuch) {
		err = nil
	}
	for _, f := range found {
		if f.Severity.AtLeast(lint.Warning) {
			rules = append(rules, f.Rule)
		}
	}
	return rules, err
}

// tunedJSON is -o json.
type tunedJSON struct {
	Given    candidateJSON  `json:"given"`
	Best     *candidateJSON `json:"best,omitempty"`
	Cheapest *candidateJSON `json:"cheapest,omitempty"`
	// Passed tells whether the best passed all trials, Refused how many lint warns of.
	Passed   bool            `json:"passed"`
	Refused  int             `json:"refused"`
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
	Trials    []trialJSON     `json:"trials,omitempty"`
}

type trialJSON struct {
	Name    string    `json:"name"`
	Score   scoreJSON `json:"score"`
	Allowed struct {
		ShortShare      float64 `json:"shortShare"`
		LostShare       float64 `json:"lostShare"`
		ReversalsPerDay figure  `json:"reversalsPerDay"`
	} `json:"allowed"`
	Passed bool `json:"passed"`
}

type scoreJSON struct {
	ShortShare      float64 `json:"shortShare"`
	LostShare       float64 `json:"lostShare"`
	ReversalsPerDay figure  `json:"reversalsPerDay"`
	AveragePods     figure  `json:"averagePods"`
}

// figure is a number, or null: it is that of a run that was too large, for which JSON has none.
type figure float64

// MarshalJSON implements json.Marshaler.
func (f figure) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(f), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

func newCandidateJSON(object *autoscalingv2.HorizontalPodAutoscaler, given, c *tune.Candidate) (candidateJSON, error) {
	spec, err := json.Marshal(tunedObject(object, &c.Spec).Spec)
	score := func(s tune.Score) scoreJSON { return scoreJSON{s.Short, s.Lost, figure(s.Reversals), figure(s.Cost)} }
	out := candidateJSON{
		Spec: spec, Changes: changesOf(&given.Spec, &c.Spec), Searched: score(c.Searched), Confirmed: score(c.Confirmed),
		Reached: c.Reached, Holds: c.Holds,
	}
	for _, t := range c.Trials {
		one := trialJSON{Name: t.Name, Score: score(t.Score), Passed: t.Passed}
		one.Allowed.ShortShare, one.Allowed.LostShare, one.Allowed.ReversalsPerDay = t.Allowed.Short, t.Allowed.Lost, figure(t.Allowed.Reversals)
		out.Trials = append(out.Trials, one)
	}
	return out, err
}

func (c *tuneCommand) write(w io.Writer, s *simulation.Scenario, object *autoscalingv2.HorizontalPodAutoscaler, r *tune.Result) error {
	var err error
	switch c.output.Form {
	case cli.AsJSON:
		err = writeTunedJSON(w, object, r)
	case asYAML:
		if r.Best != nil {
			err = c.writeManifest(w, object, r.Best)
		}
	default:
		err = c.writeText(w, s, object, r)
	}
	switch {
	case err != nil:
		return err
	case r.Best == nil && r.Refused > 0:
		return fmt.Errorf("of %d specs those that reach the goal have warnings of lint that the given one does not have", r.Tried)
	case r.Best == nil:
		return fmt.Errorf("none of %d specs reaches the goal; raise --candidates or maxReplicas, or relax the goal", r.Tried)
	case !r.Passed:
		return fmt.Errorf("the spec reaches the goal in the first half of the time, which was searched, but misses it in the second with %s", missed(r.Best))
	}
	return nil
}

// missed is the trial that a candidate did not pass.
func missed(c *tune.Candidate) string {
	for _, t := range c.Trials {
		if !t.Passed {
			return t.Name
		}
	}
	return "a warning of lint for the scenario"
}

func writeTunedJSON(w io.Writer, object *autoscalingv2.HorizontalPodAutoscaler, r *tune.Result) error {
	out := tunedJSON{Front: []candidateJSON{}, Tried: r.Tried, TooLarge: r.TooLarge, SplitSeconds: r.Split.Seconds(), Passed: r.Passed, Refused: r.Refused}
	var err error
	if out.Given, err = newCandidateJSON(object, &r.Given, &r.Given); err != nil {
		return err
	}
	for to, c := range map[**candidateJSON]*tune.Candidate{&out.Best: r.Best, &out.Cheapest: r.Cheapest} {
		if c == nil {
			continue
		}
		one, err := newCandidateJSON(object, &r.Given, c)
		if err != nil {
			return err
		}
		*to = &one
	}
	for i := range r.Front {
		one, err := newCandidateJSON(object, &r.Given, &r.Front[i])
		if err != nil {
			return err
		}
		out.Front = append(out.Front, one)
	}
	return cli.WriteLine(w, &out)
}

func (c *tuneCommand) writeManifest(w io.Writer, object *autoscalingv2.HorizontalPodAutoscaler, chosen *tune.Candidate) error {
	tuned := tunedObject(object, &chosen.Spec)
	if c.stored != nil {
		out := proto.Clone(c.stored).(*setpointv1.TargetSpec)
		out.Stages = conversion.WithFallbacks(out.GetSpec(), out.GetStages()) // the spec of autoscaling/v2 has no place for those of its metrics
		out.Spec = kubernetes.SpecToProto(&tuned.Spec)
		if tuned.Spec.ScaleTargetRef.Name == "" {
			out.Spec.ScaleTargetRef = nil
		}
		text, err := (&restjson.Marshaler{}).Marshal(out)
		if err != nil {
			return err
		}
		var all map[string]json.RawMessage
		err = json.Unmarshal(text, &all)
		// What the file has not, such as the etag that a server sets.
		maps.DeleteFunc(all, func(_ string, value json.RawMessage) bool { return string(value) == `""` || string(value) == "[]" })
		return errors.Join(err, cli.WriteValue(w, cli.AsYAML, all))
	}
	metadata := map[string]any{"name": object.Name, "namespace": object.Namespace}
	if len(object.Labels) > 0 {
		metadata["labels"] = object.Labels
	}
	if len(c.annotations) > 0 {
		metadata["annotations"] = c.annotations
	}
	// What belongs to a cluster's object is no part of a manifest.
	out := map[string]any{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": tuned.Spec}
	if c.given["kind"] == ownKind {
		out["apiVersion"], out["kind"], out["spec"] = c.given["apiVersion"], c.given["kind"], withTuned(c.given["spec"], &tuned.Spec)
	}
	data, err := yaml.Marshal(out)
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

func (c *tuneCommand) writeText(w io.Writer, s *simulation.Scenario, object *autoscalingv2.HorizontalPodAutoscaler, r *tune.Result) error {
	end := s.Start.Add(s.Duration)
	layout := "2006-01-02 15:04"
	fmt.Fprintf(w, "%s: %d specs tried, seed %d; searched %s to %s, confirmed up to %s\ngoal: at most %s %% of the time short of capacity",
		printable.Text(c.scenario.file), r.Tried, s.Seed, s.Start.Format(layout), s.Start.Add(r.Split).Format(layout), end.Format(layout), printable.Figures(c.maxShort, givenFigures))
	fmt.Fprintf(w, ", %s, %s\n", limitWords(c.goal.MaxLost, 100, "% of the load lost", "loss no worse than as it is"), limitWords(c.goal.MaxReversals, 1, "reversals a day", "reversals either"))
	fmt.Fprint(w, "chosen: of the specs within 5 % of the cheapest, the fewest changes\n\n")
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "\tsearched: pods\tshort\tlost\treversals a day\tconfirmed: pods\tshort\tchanges")
	row := func(name string, c *tune.Candidate) {
		changes := "–"
		if c.Changes > 0 {
			changes = fmt.Sprint(c.Changes)
		}
		fmt.Fprintf(table, "%s\t%.2f\t%.2f %%\t%.2f %%\t%s\t%.2f\t%.2f %%\t%s\n", name, c.Searched.Cost, c.Searched.Short*100, c.Searched.Lost*100, threeOf(c.Searched.Reversals),
			c.Confirmed.Cost, c.Confirmed.Short*100, changes)
	}
	row("as it is", &r.Given)
	for i := range r.Front {
		row(fmt.Sprintf("front %d", i+1), &r.Front[i])
	}
	if r.Cheapest != nil && r.Cheapest != r.Best {
		row("cheapest", r.Cheapest)
	}
	if r.Best != nil {
		row("chosen", r.Best)
	}
	if err := table.Flush(); err != nil || r.Best == nil {
		return err
	}
	if err := writeTrials(w, r); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nchosen: %s pods in place of %s", threeOf(r.Best.Searched.Cost), threeOf(r.Given.Searched.Cost))
	if r.Given.Searched.Cost > 0 {
		fmt.Fprintf(w, " (%+.1f %%)", 100*(r.Best.Searched.Cost/r.Given.Searched.Cost-1))
	}
	fmt.Fprint(w, "; ")
	switch {
	case !r.Passed:
		fmt.Fprintf(w, "NOT CONFIRMED: it misses the goal with %s\n", missed(r.Best))
	case r.Best.Changes == 0:
		fmt.Fprintln(w, unchanged)
	default:
		fmt.Fprintln(w, "it passes all trials, and has no warning of lint that the given spec does not have")
	}
	for _, change := range changesOf(&r.Given.Spec, &r.Best.Spec) {
		fmt.Fprintln(w, "  "+printable.Text(change))
	}
	fmt.Fprintln(w)
	return c.writeManifest(w, object, r.Best)
}

// writeTrials writes the trials of the chosen spec, with what the given one does and what is allowed.
func writeTrials(w io.Writer, r *tune.Result) error {
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "chosen (as it is; allowed)\tshort\tlost\treversals a day\t")
	for i, t := range r.Best.Trials {
		given := &r.Given.Trials[i].Score
		verdict := "passed"
		switch {
		case !t.Passed:
			verdict = "missed"
		case t.Allowed.Short >= 1:
			verdict = "passed: too short a time to be missed"
		}
		fmt.Fprintf(table, "%s\t%.2f %% (%.2f; %.2f)\t%.3f %% (%.3f; %.3f)\t%s (%s; %s)\t%s\n", t.Name, t.Score.Short*100, given.Short*100, t.Allowed.Short*100,
			t.Score.Lost*100, given.Lost*100, t.Allowed.Lost*100, threeOf(t.Score.Reversals), threeOf(given.Reversals), threeOf(t.Allowed.Reversals), verdict)
	}
	return table.Flush()
}

// limitWords is a goal in words.
func limitWords(limit *float64, factor float64, unit, relative string) string {
	if limit == nil {
		return relative
	}
	return printable.Figures(*limit*factor, givenFigures) + " " + unit
}

// givenFigures are those of numbers that a person has given, which lose nothing by them.
const givenFigures = 10

// threeOf is a number of pods, or of events, in three figures.
func threeOf(f float64) string { return printable.Figures(f, 3) }
