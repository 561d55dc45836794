// Package cost measures the cost of a recommendation in each process: processor time of callers,
// service and Redis, and bytes between them, under closed loops of several sizes.
// docs/operate/scaling.md has plain formulas that derive sizes from it.
//
//	cd bench && go run . cost                              # the tables, from committed points
//	go run . cost -measure cost/testdata/points.json       # measure again; some minutes
//	go run . cost -update ../docs/operate/scaling.md               # write the tables into the page
package cost

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/setpoint-dev/setpoint/bench/report"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// Command is the argument of the tool that runs this package's Run.
const Command = "cost"

// Run writes the tables, from points that it measures or from the committed ones.
func Run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet(Command, flag.ContinueOnError)
	measure := flags.String("measure", "", "measure, and write the points into this file; empty: the committed points are used")
	page := flags.String("update", "", "Markdown file to write the tables into, between its markers; empty: standard output")
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
		return errors.New("cost: unexpected arguments, or -runs or -duration is not positive")
	}
	var m *Measured
	if *measure != "" {
		m, err = measureInto(ctx, *measure, *service, *runs, *duration, fmt.Sprintf("go run . cost -measure FILE -runs %d -duration %v", *runs, *duration))
	} else {
		m, err = Committed()
	}
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

func measureInto(ctx context.Context, file, program string, runs int, d time.Duration, command string) (*Measured, error) {
	root, err := process.Repository()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "setpoint-cost-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	if program == "" {
		if program, err = process.Build("setpoint", false); err != nil {
			return nil, err
		}
	}
	b, err := startBench(ctx, program, folder)
	defer b.end()
	if err != nil {
		return nil, err
	}
	m := &Measured{Machine: report.ThisMachine(root), Command: command}
	if m.Points, err = b.points(ctx, runs, d, m.Machine.Cores); err != nil {
		return nil, err
	}
	if m.Bytes, err = b.bytes(ctx, d); err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, append(data, '\n'), 0o644); err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, "measured", len(m.Points), "loads into", file)
	return m, nil
}
