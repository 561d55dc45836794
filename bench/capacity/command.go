// Package capacity is a model of how much the service can do: what a recommendation costs
// on each resource, as measured on one machine, what follows for others by formulas, and
// a simulation, event by event, that says how far the formulas are to be believed.
//
//	cd bench && go run . capacity                            # the tables of docs/scaling.md
//	go run . capacity -measure capacity/testdata/points.json # measure anew; a minute
//	go run . capacity -update ../docs/scaling.md             # into the page
package capacity

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/setpoint-dev/setpoint/bench/process"
	"github.com/setpoint-dev/setpoint/bench/report"
)

// Command is the argument of the tool that has it run this package's Run.
const Command = "capacity"

// Run writes the tables, or measures anew.
func Run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet(Command, flag.ContinueOnError)
	measure := flags.String("measure", "", "measure, into this file, instead of writing tables")
	page := flags.String("update", "", "Markdown file between whose markers the tables go, instead of standard output")
	service := flags.String("service", "", "the service's program; empty: it is built from the work tree")
	runs := flags.Int("runs", 5, "times that each load is measured")
	duration := flags.Duration("duration", 400*time.Millisecond, "time that each takes")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case flags.NArg() > 0 || *runs < 1 || *duration <= 0:
		return errors.New("capacity: unexpected arguments, or -runs or -duration is not positive")
	case *measure != "":
		return measureInto(ctx, *measure, *service, *runs, *duration, fmt.Sprintf("go run . capacity -measure FILE -runs %d -duration %v", *runs, *duration))
	}
	m, err := Committed()
	if err != nil {
		return err
	}
	tables, err := m.Page()
	if err != nil {
		return err
	}
	if *page != "" {
		return update(*page, tables)
	}
	_, err = io.WriteString(out, tables)
	return err
}

func measureInto(ctx context.Context, file, program string, runs int, d time.Duration, command string) error {
	root, err := process.Root()
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "setpoint-capacity-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if program == "" {
		if program, err = process.Build(root, folder); err != nil {
			return err
		}
	}
	b, err := startBench(ctx, program, folder)
	defer b.end()
	if err != nil {
		return err
	}
	m := &Measured{Machine: report.ThisMachine(root), Command: command}
	if m.Points, err = b.points(ctx, runs, d, m.Machine.Cores); err != nil {
		return err
	}
	if m.Bytes, err = b.bytes(ctx, d); err != nil {
		return err
	}
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, append(data, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "measured", len(m.Points), "loads into", file)
	return nil
}
