package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/setpoint/replay"
)

// backtestCommand holds the flags and the results of setpoint backtest.
type backtestCommand struct {
	spec   string
	output *cli.OutputFlag

	scenarios, mismatched, failed, unreadable int
}

func newBacktest() *cobra.Command {
	c := &backtestCommand{output: cli.NewOutputFlag(cli.AsText, cli.AsJSON)}
	cmd := &cobra.Command{
		Use:   "backtest --spec SPEC RECORDING...",
		Short: "Decide recorded observations again with another spec, and compare",
		Long: `Decide recorded observations again with another spec, and compare: recordings and the
flight files of agents (setpoint agent … --record). Each is replayed with its own spec
first, which has to decide as recorded, and then with the other one.

Readings and counts are those of the recording at every step: what the other spec
decides does not change what it sees next. setpoint simulate closes that loop.

Exits with 1 if a recording is not reproduced by its own spec or can't be replayed,
and with 2 if a file is invalid.`,
		Example: "  setpoint backtest --spec careful.yaml flight.jsonl.gz\n  setpoint backtest --spec careful.yaml -o json flight.jsonl | jq .other.replicaHours",
		Args:    cobra.MinimumNArgs(1),
		RunE:    c.run,
	}
	cmd.Flags().StringVar(&c.spec, "spec", "", "`file` of the HorizontalPodAutoscaler that is tried (required)")
	cmd.Flags().VarP(c.output, "output", "o", "form of the output: text or json (lines)")
	return cmd
}

func (c *backtestCommand) run(cmd *cobra.Command, files []string) error {
	if c.spec == "" {
		return cli.BadInput(errors.New("--spec is required; see setpoint backtest --help"))
	}
	spec, err := readSpec(cmd, c.spec)
	if err != nil {
		return err
	}
	for _, name := range files {
		if err := c.file(cmd, name, spec); err != nil {
			return err
		}
	}
	switch {
	case c.failed > 0:
		return fmt.Errorf("%d scenarios can't be replayed", c.failed)
	case c.mismatched > 0:
		return fmt.Errorf("%d scenarios are not reproduced by their own specs, so that nothing can be said of another", c.mismatched)
	case c.unreadable > 0:
		return cli.BadInput(fmt.Errorf("%d lines or files hold no scenario that can be read", c.unreadable))
	}
	return nil
}

func (c *backtestCommand) file(cmd *cobra.Command, name string, spec *autoscalingv2.HorizontalPodAutoscalerSpec) error {
	file, err := cli.Open(cmd, name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	read := false
	for scenario, err := range recording.NewReader(name, file).All() {
		read = true
		if err != nil {
			c.unreadable++
			fmt.Fprintf(cmd.ErrOrStderr(), "setpoint: %v\n", err)
			continue
		}
		got, err := replay.RunBacktest(cmd.Context(), scenario, spec)
		if ended := cmd.Context().Err(); ended != nil {
			return ended
		}
		if err != nil {
			c.failed++
			fmt.Fprintf(cmd.ErrOrStderr(), "setpoint: %s: %v\n", name, err)
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

func (c *backtestCommand) write(w io.Writer, b *replay.Backtest) error {
	if c.output.Form == cli.AsJSON {
		return json.NewEncoder(w).Encode(b)
	}
	reproduced := "its own spec reproduces it"
	switch {
	case b.Mismatched > 0:
		reproduced = fmt.Sprintf("NOT REPRODUCED: its own spec decides otherwise at %d of %d steps", b.Mismatched, b.Compared)
	case b.Compared == 0:
		reproduced = "its own decisions were not recorded"
	}
	covered := "of no time"
	if b.SpanSeconds > 0 {
		covered = fmt.Sprintf("%.1f %% of its time are covered", 100*b.CoveredSeconds/b.SpanSeconds)
	}
	fmt.Fprintf(w, "%s: %d steps, %s; %s\n", b.Scenario, b.Steps, covered, reproduced)
	side := func(name string, s *replay.Side) {
		fmt.Fprintf(w, "  %-9s %.4g replica-hours, %d to %d replicas, decides %d up and %d down\n", name, s.ReplicaHours, s.Least, s.Most, s.Ups, s.Downs)
	}
	side("recorded", &b.Recorded)
	side("this spec", &b.Other)
	if b.Different == 0 {
		_, err := fmt.Fprintln(w, "  the same count at every step")
		return err
	}
	fmt.Fprintf(w, "  another count at %d steps:\n", b.Different)
	for _, d := range b.Differences {
		fmt.Fprintf(w, "    %s  step %d, %d replicas: recorded %d (%s), this spec %d (%s)\n",
			d.Time.UTC().Format("2006-01-02 15:04:05"), d.Step, d.Current, d.Recorded, d.RecordedReason, d.Other, d.OtherReason)
	}
	if more := b.Different - len(b.Differences); more > 0 {
		fmt.Fprintf(w, "    and %d more\n", more)
	}
	return nil
}
