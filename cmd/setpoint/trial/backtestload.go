//go:build !service

package trial

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/replay"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/report"
	"github.com/setpoint-dev/setpoint/simulation/scenario"
)

// load runs the back-test of a recorded load: a scenario with CSV or ranges of Prometheus.
func (c *backtestCommand) load(cmd *cobra.Command) error {
	world, recorded, err := c.scenario.readRecorded(cmd)
	if err != nil {
		return err
	}
	if len(recorded.Files) == 0 {
		return cli.BadInput(fmt.Errorf("%s: has no recorded load: name a file in load[].csv or load[].prometheus, or run setpoint simulate", c.scenario.file))
	}
	q := &replay.LoadQuestion{Name: c.scenario.file, Scenario: world, Recorded: recorded}
	var problems []error
	autoscaler := func(name string) *simulation.Autoscaler {
		a, err := c.scenario.readAutoscaler(cmd, name)
		problems = append(problems, err)
		return a
	}
	check := func(name string, a *simulation.Autoscaler) {
		if a == nil {
			return
		}
		if err := simulation.Check(world, a); err != nil {
			problems = append(problems, cli.BadInput(fmt.Errorf("%s with %s: %w", c.scenario.file, name, err)))
		}
	}
	q.Other = autoscaler(c.spec)
	runs := int64(1)
	if c.own != "" {
		q.Own = autoscaler(c.own)
		runs++
	}
	problems = append(problems, c.scenario.paced(world, q.Other, q.Own))
	check(c.spec, q.Other)
	check(c.own, q.Own)
	if c.replicas != "" {
		data, err := cli.ReadWithin(cmd, c.replicas, scenario.MaxLoadBytes)
		if err == nil {
			if q.Replicas, err = scenario.ReadSeries(cmd.Context(), data, world.Start.Location()); err != nil {
				err = cli.BadInput(fmt.Errorf("--replicas: %s: %w", c.replicas, err))
			}
		}
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	c.scenario.watch(cmd, runs*int64(world.Duration/world.Loop.SyncPeriod))
	defer c.scenario.bar.Clear()
	q.Progress = func() { c.scenario.bar.Add(1) }
	got, err := replay.RunLoad(cmd.Context(), q)
	if err != nil {
		return err
	}
	c.scenario.bar.Clear()
	if q.Replicas != nil && got.Recorded == nil {
		return cli.BadInput(fmt.Errorf("--replicas: %s has no count in the time of the load, from %s on for %s", c.replicas, world.Start.Format(time.RFC3339), spanWords(got.SpanSeconds)))
	}
	return c.writeLoad(cmd.OutOrStdout(), got)
}

func (c *backtestCommand) writeLoad(w io.Writer, b *replay.LoadBacktest) error {
	if c.output.Form == cli.AsJSON {
		return cli.WriteLine(w, b)
	}
	share := func(seconds float64) string { return fmt.Sprintf("%.1f %%", 100*seconds/b.SpanSeconds) }
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %s of %s covered by %s, all of it modelled", printable.Text(b.Scenario), share(b.CoveredSeconds), report.Span(time.Duration(b.SpanSeconds*float64(time.Second))),
		printable.Text(strings.Join(b.Files, ", ")))
	if b.LowerBoundSeconds != nil && *b.LowerBoundSeconds > 0 {
		fmt.Fprintf(&out, ", of which %s a lower bound", share(*b.LowerBoundSeconds))
	}
	if gaps := b.SpanSeconds - b.CoveredSeconds - b.UncountedSeconds; gaps > 0 {
		fmt.Fprintf(&out, "; %s not recorded", share(gaps))
	}
	if b.UncountedSeconds > 0 {
		fmt.Fprintf(&out, "; %s without a recorded count, left out of all sides", share(b.UncountedSeconds))
	}
	out.WriteString("\n")
	switch {
	case b.Same != nil:
		fmt.Fprintf(&out, "  its own spec, modelled, has the recorded count for %.1f %% of that time, one off or less for %.1f %%\n", 100**b.Same, 100**b.Near)
	case b.Own == nil:
		out.WriteString("  not known: how near the model is; --own and --replicas compare its own spec with the count that was recorded\n")
	default:
		out.WriteString("  not known: how near the model is; --replicas compares its own spec with the count that was recorded\n")
	}
	if b.NoNumbers > 0 {
		fmt.Fprintf(&out, "  samples without a value are left out: %d\n", b.NoNumbers)
	}
	if b.LowerBoundSeconds == nil {
		out.WriteString("  not known: whether pods were full, and hid load; that takes --replicas, and workload.capacity or limits\n")
	}
	short := ""
	if b.Other.ShortSeconds != nil {
		short = "short of capacity"
	}
	writeSides(&out, b.Recorded, b.Own, b.Other, short)
	_, err := io.WriteString(w, out.String())
	return err
}

// writeSides writes the sides of a closed loop that there are, with the time for which each was short unless that is "".
func writeSides(out *strings.Builder, recorded, own, other *replay.ClosedSide, short string) {
	out.WriteString("\n")
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	row := func(name string, cell func(name string, s *replay.ClosedSide) string) {
		fmt.Fprint(table, "  "+name)
		for _, s := range []struct {
			name string
			side *replay.ClosedSide
		}{{"recorded", recorded}, {"own spec", own}, {"this spec", other}} {
			if s.side != nil {
				fmt.Fprint(table, "\t"+cell(s.name, s.side))
			}
		}
		fmt.Fprintln(table)
	}
	row("closed loop", func(name string, _ *replay.ClosedSide) string { return name })
	row("replica-hours", func(_ string, s *replay.ClosedSide) string { return printable.Figures(s.ReplicaHours, 4) })
	row("replicas", func(_ string, s *replay.ClosedSide) string { return fmt.Sprintf("%d to %d", s.Least, s.Most) })
	row("changes", func(_ string, s *replay.ClosedSide) string {
		return fmt.Sprintf("%d up, %d down, %d reversals", s.Ups, s.Downs, s.Reversals)
	})
	if short != "" {
		row(short, func(_ string, s *replay.ClosedSide) string {
			if s.ShortSeconds == nil {
				return "–"
			}
			return spanWords(*s.ShortSeconds)
		})
	}
	_ = table.Flush() // out is a strings.Builder
}
