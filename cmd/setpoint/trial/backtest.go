//go:build !service

package trial

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/specfile"
	"github.com/setpoint-dev/setpoint/hpa"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
	"github.com/setpoint-dev/setpoint/replay"
	"github.com/setpoint-dev/setpoint/simulation/report"
)

// backtestCommand holds the flags and the results of setpoint backtest.
type backtestCommand struct {
	spec    string
	assumed assumedFlags
	output  *cli.OutputFlag
	// Of a recorded load: the scenario, with the controller's options; the own spec, and the
	// file of the recorded count.
	scenario      simulateCommand
	own, replicas string

	// going is where the spec is with each object: an agent that rotates its file goes on in the next one.
	going map[string]*replay.Continuation

	scenarios, mismatched, failed, unreadable int
}

func newBacktest() *cobra.Command {
	c := &backtestCommand{output: cli.NewOutputFlag(cli.AsText, cli.AsJSON)}
	cmd := &cobra.Command{
		Use:   "backtest --spec SPEC {RECORDING... | -f SCENARIO}",
		Short: "Show what another spec would have decided on recorded data",
		Long: `Show what another spec would have decided on recorded data: recordings, or the files
that agents write (setpoint agent … --record). The command first replays each recording
with its own spec, which must decide as recorded.

Then the other spec runs in a closed loop: its counts change what it sees next. While
its count equals the recorded one, it sees the recorded samples; with another count, the
measured load is divided among its pods. The first line of the output says how much of
the time this covers.

With --file the load comes from the CSV files and Prometheus range queries in a scenario
of setpoint simulate, and all usage is modelled. Give --own and --replicas, the spec and
the count at that time, to see how close the model is.

Exits with 1 if a recording is not reproduced by its own spec or can't be replayed,
and with 2 if a file is invalid.`,
		Example: "  setpoint backtest --spec careful.yaml flight.jsonl.gz\n  setpoint backtest --spec careful.yaml --cpu-limit=1 --idle=cpu=20m flight.jsonl.gz\n  setpoint backtest --spec careful.yaml -o json flight.jsonl | jq .closedLoop.other.replicaHours\n  setpoint backtest --spec careful.yaml -f scenario.yaml --own hpa.yaml --replicas count.json",
		Args: func(cmd *cobra.Command, args []string) error {
			if c.scenario.file != "" {
				return nil // run says what is wrong
			}
			return cobra.MinimumNArgs(1)(cmd, args)
		},
		RunE: c.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&c.spec, "spec", "", "`file` of the HorizontalPodAutoscaler to try (required)")
	c.assumed.bind(flags)
	flags.StringVarP(&c.scenario.file, "file", "f", "", "`file` of a scenario with recorded load, instead of recordings")
	flags.StringVar(&c.own, "own", "", "`file` of the spec at the time of the recorded load; with --file")
	flags.StringVar(&c.replicas, "replicas", "", "`file` of the recorded count, CSV or Prometheus JSON; with --file")
	flags.VarP(c.output, "output", "o", "form of the output: text or json (lines)")
	c.scenario.options.Bind(flags)
	return cmd
}

func (c *backtestCommand) run(cmd *cobra.Command, files []string) error {
	if c.spec == "" {
		return cli.BadInput(errors.New("--spec is required; see setpoint backtest --help"))
	}
	if err := c.alternatives(cmd, files); err != nil {
		return cli.BadInput(err)
	}
	if c.scenario.file != "" {
		return c.load(cmd)
	}
	var err error
	if c.assumed.Assumed, err = c.assumed.read(); err != nil {
		return cli.BadInput(err)
	}
	spec, err := specfile.Replacing(cmd, c.spec)
	if err != nil {
		return err
	}
	kubernetes.Defaults(spec.Object)
	c.going = make(map[string]*replay.Continuation)
	for _, name := range files {
		if err := c.file(cmd, name, spec); err != nil {
			return err
		}
	}
	switch {
	case c.failed > 0:
		return fmt.Errorf("%d scenarios can't be replayed", c.failed)
	case c.mismatched > 0:
		return fmt.Errorf("replayed with their own specs, %d scenarios do not decide as recorded, so another spec can't be compared", c.mismatched)
	case c.unreadable > 0 && c.scenarios == 0:
		return cli.BadInput(errors.New("no recording was found; for a CSV file or a Prometheus response, give a scenario that names it with --file"))
	case c.unreadable > 0:
		return cli.BadInput(fmt.Errorf("%d lines or files have no readable scenario", c.unreadable))
	}
	return nil
}

// maxUnreadable bounds the lines that are complained of one by one: any file may be given.
const maxUnreadable = 10

// alternatives refuses flags that belong to the other kind of recording.
func (c *backtestCommand) alternatives(cmd *cobra.Command, files []string) error {
	load := c.scenario.file != ""
	if load && len(files) > 0 {
		return errors.New("--file replaces recordings: give one or the other")
	}
	var problem error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "spec", "output", "file", "help":
		case "cpu-limit", "idle":
			if load {
				problem = fmt.Errorf("--%s only applies to recordings; with --file, set it in the scenario's workload", f.Name)
			}
		default:
			if !load && cmd.LocalFlags().Lookup(f.Name) != nil {
				problem = fmt.Errorf("--%s only applies with --file; a recording has its own", f.Name)
			}
		}
	})
	return problem
}

// assumedFlags are what flags say of the pods of recordings.
type assumedFlags struct {
	replay.Assumed
	cpuLimit string
	idle     map[string]string
}

func (a *assumedFlags) bind(flags *pflag.FlagSet) {
	flags.StringVar(&a.cpuLimit, "cpu-limit", "", "CPU limit of a pod, a `quantity`, in place of the recorded one; without either, full pods are not detected")
	flags.StringToStringVar(&a.idle, "idle", nil, "what a pod uses without load, as `cpu=20m,memory=100Mi` (default nothing)")
}

func (a *assumedFlags) read() (out replay.Assumed, err error) {
	if a.cpuLimit != "" {
		milli, err := milliOf(a.cpuLimit)
		if err != nil || milli == 0 {
			return out, fmt.Errorf(`--cpu-limit: %q must be a quantity above 0, such as "500m" or "2"`, a.cpuLimit)
		}
		out.CPULimit = milli
	}
	for _, name := range slices.Sorted(maps.Keys(a.idle)) {
		if name != "cpu" && name != "memory" {
			return out, fmt.Errorf("--idle: %q is not supported: must be cpu or memory", name)
		}
		milli, err := milliOf(a.idle[name])
		if err != nil {
			return out, fmt.Errorf(`--idle: %q must be a quantity of at least 0, such as "20m" or "100Mi"`, name+"="+a.idle[name])
		}
		out.Idle = append(out.Idle, recommender.ResourceUsage{Resource: name, Milli: milli})
	}
	return out, nil
}

// milliOf reads a quantity of at least 0 in milli-units.
func milliOf(text string) (int64, error) {
	milli, inRange, err := quantity.ParseMilli(text)
	if err == nil && (!inRange || milli < 0) {
		err = errors.New("out of range")
	}
	return milli, err
}

func (c *backtestCommand) file(cmd *cobra.Command, name string, spec *hpa.Autoscaler) error {
	file, err := cli.Open(cmd, name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	read := false
	for scenario, err := range recording.NewReader(name, file).All() {
		read = true
		if ended := cmd.Context().Err(); ended != nil {
			return ended
		}
		if err != nil {
			if c.unreadable++; c.unreadable <= maxUnreadable {
				fmt.Fprintln(cmd.ErrOrStderr(), "setpoint: "+printable.Block(err.Error()))
			}
			continue
		}
		got, err := replay.RunBacktest(cmd.Context(), scenario, &replay.Question{
			Spec: &spec.Object.Spec, Stages: spec.Stages(), Options: spec.Options(), Assumed: c.assumed.Assumed, After: c.after(scenario),
		})
		if ended := cmd.Context().Err(); ended != nil {
			return ended
		}
		if err != nil {
			c.failed++
			fmt.Fprintln(cmd.ErrOrStderr(), "setpoint: "+printable.Block(fmt.Sprintf("%s: %v", name, err)))
			continue
		}
		c.scenarios++
		if got.Mismatched > 0 {
			c.mismatched++
		}
		if err := c.write(cmd.OutOrStdout(), got); err != nil {
			return err
		}
	}
	if !read {
		c.unreadable++
		fmt.Fprintf(cmd.ErrOrStderr(), "setpoint: %s: holds no scenario\n", name)
	}
	return nil
}

// maxGoing bounds the objects with which the spec goes on from one scenario to the next.
const maxGoing = 1000

// after is where the spec is with a scenario's object.
func (c *backtestCommand) after(scenario *recording.Scenario) *replay.Continuation {
	object := replay.ObjectOf(scenario)
	if c.going[object] == nil {
		if len(c.going) == maxGoing {
			clear(c.going)
		}
		c.going[object] = &replay.Continuation{}
	}
	return c.going[object]
}

func (c *backtestCommand) write(w io.Writer, b *replay.Backtest) error {
	if c.output.Form == cli.AsJSON {
		return cli.WriteLine(w, b)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %s\n", printable.Text(b.Scenario), coveredWords(b))
	switch {
	case b.Mismatched > 0:
		fmt.Fprintf(&out, "  NOT REPRODUCED: its own spec decides otherwise at %d of %d steps\n", b.Mismatched, b.Compared)
	case b.Compared == 0:
		fmt.Fprintf(&out, "  its own decisions were not recorded: what came of each of %d steps is the next count\n", b.Steps)
	default:
		fmt.Fprintf(&out, "  its own spec reproduces it, at all %d steps\n", b.Compared)
	}
	if b.ClosedLoop != nil {
		writeClosedLoop(&out, b.ClosedLoop)
	}
	writeOpenLoop(&out, b)
	_, err := io.WriteString(w, out.String())
	return err
}

// coveredWords says for how much of the time the back-test can tell anything.
func coveredWords(b *replay.Backtest) string {
	if b.SpanSeconds == 0 {
		return fmt.Sprintf("%d steps at one instant: no time is covered", b.Steps)
	}
	share := func(seconds float64) string { return fmt.Sprintf("%.1f %%", 100*seconds/b.SpanSeconds) }
	c := b.ClosedLoop
	if c == nil {
		return fmt.Sprintf("%s of %s covered", share(b.CoveredSeconds), spanWords(b.SpanSeconds))
	}
	text := fmt.Sprintf("%s of %s covered", share(c.RecordedSeconds+c.ModelledSeconds), spanWords(b.SpanSeconds))
	var parts []string
	if c.RecordedSeconds > 0 {
		parts = append(parts, share(c.RecordedSeconds)+" as recorded")
	}
	if c.ModelledSeconds > 0 {
		part := share(c.ModelledSeconds) + " modelled"
		if c.LowerBoundSeconds > 0 {
			part += ", of which " + share(c.LowerBoundSeconds) + " a lower bound"
		}
		parts = append(parts, part)
	}
	if c.UnknownSeconds > 0 {
		parts = append(parts, share(c.UnknownSeconds)+" without samples")
	}
	if gaps := b.SpanSeconds - b.CoveredSeconds; gaps > 0 {
		parts = append(parts, share(gaps)+" not recorded")
	}
	return text + ": " + strings.Join(parts, ", ")
}

func spanWords(seconds float64) string {
	return report.Span(time.Duration(seconds * float64(time.Second)))
}

func writeClosedLoop(out *strings.Builder, c *replay.ClosedLoop) {
	short := ""
	if c.LimitKnown {
		short = "short of CPU"
	}
	writeSides(out, &c.Recorded, nil, &c.Other, short)
	if c.ModelledSeconds > 0 {
		writeUnknowns(out, c)
	}
	if c.Changed == 0 {
		return
	}
	fmt.Fprintf(out, "  %d changes by this spec:\n", c.Changed)
	for _, d := range c.Changes {
		fmt.Fprintf(out, "    %s  %d → %d, recorded %d: %s\n", d.Time.UTC().Format("2006-01-02 15:04:05"), d.From, d.To, d.Recorded, printable.Text(d.Reason))
	}
	if more := c.Changed - len(c.Changes); more > 0 {
		fmt.Fprintf(out, "    and %d more\n", more)
	}
}

// writeUnknowns says what the modelled time rests on, and what nobody can know.
func writeUnknowns(out *strings.Builder, c *replay.ClosedLoop) {
	ready := fmt.Sprintf("new pods are ready after %s, the median of %d that were recorded", report.Span(time.Duration(c.ReadySeconds*float64(time.Second))), c.PodsMeasured)
	if c.PodsMeasured == 0 {
		ready = "new pods are ready at once, because the recording has no pod that started, or only how many there are"
	}
	fmt.Fprintf(out, "  assumed where it is modelled: all ready pods share the measured usage evenly; %s\n", ready)
	if !c.LimitKnown {
		out.WriteString("  not known: whether pods were full, and hid load; the recording has no CPU limits (--cpu-limit), or no CPU usage\n")
	}
	if len(c.AsRecorded) > 0 {
		fmt.Fprintf(out, "  not known: how another count changes %s, which is taken as it was recorded\n", printable.Text(strings.Join(c.AsRecorded, ", ")))
	}
}

// shownDifferences is how many steps the text shows that are decided otherwise.
const shownDifferences = 3

// writeOpenLoop says what is decided at each step as it was recorded.
func writeOpenLoop(out *strings.Builder, b *replay.Backtest) {
	if b.Different == 0 {
		out.WriteString("\n  each step on its own, from the recorded readings and count: the same count at every step\n")
		return
	}
	fmt.Fprintf(out, "\n  each step on its own, from the recorded readings and count: another count at %d of %d steps\n", b.Different, b.Steps)
	shown := b.Differences[:min(len(b.Differences), shownDifferences)]
	for _, d := range shown {
		fmt.Fprintf(out, "    %s  step %d, %d replicas: recorded %d (%s), this spec %d (%s)\n",
			d.Time.UTC().Format("2006-01-02 15:04:05"), d.Step, d.Current, d.Recorded, printable.Text(d.RecordedReason), d.Other, printable.Text(d.OtherReason))
	}
	if more := b.Different - len(shown); more > 0 {
		fmt.Fprintf(out, "    and %d more\n", more)
	}
}
