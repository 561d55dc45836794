// Command bench measures the service as its callers see it: the real program with its default
// flags, in its own process, with a real Redis on the same machine. It measures bare handlers in
// turns with it.
//
//	make bench                                   # all, into docs/operate/performance.md
//	cd bench && go run . -scenario unary         # some, as Markdown on standard output
//	go run . -scenario 'batch' -profiles /tmp/p  # with profiles of the service
//	go run . beside OLD.json -- NEW.json         # two reports, as scripts/bench-beside.sh has them
//	go run . capacity REPORT.json                # sizes computed from its costs, for docs/operate/scaling.md
//
// It is a separate module because of its dependencies, such as HdrHistogram for exact latencies in
// little memory, which users of the service need not download. So it runs from this folder; `make
// bench` does that.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/setpoint-dev/setpoint/bench/bare"
	"github.com/setpoint-dev/setpoint/bench/capacity"
	"github.com/setpoint-dev/setpoint/bench/report"
	"github.com/setpoint-dev/setpoint/bench/scenario"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// bareCommand is the argument that runs package bare.
const bareCommand = "bare"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// collectorPercent keeps the generator's own garbage collection out of the measurement:
// by default it would run several times per second, on the processors that the service
// needs.
const collectorPercent = 1000

func run(ctx context.Context, args []string) error {
	if len(args) == 1 && args[0] == bareCommand {
		return bare.Serve(ctx, os.Stdin, os.Stdout)
	}
	if len(args) > 0 && args[0] == report.BesideCommand {
		return report.RunBeside(args[1:], os.Stdout)
	}
	if len(args) > 0 && args[0] == capacity.Command {
		return capacity.Run(args[1:], os.Stdout)
	}
	debug.SetGCPercent(collectorPercent)
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "setpoint-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := o.prepare(folder); err != nil {
		return err
	}
	r, err := o.measure(ctx)
	if err != nil {
		o.update = "" // but the successful measurements are still useful
	}
	return errors.Join(err, o.write(r))
}

// options are the command line's.
type options struct {
	scenario.Settings
	wanted                 *regexp.Regexp
	json, markdown, update string
	command                string
}

func parse(args []string) (*options, error) {
	o := &options{command: "go run . " + strings.Join(args, " ")}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	pattern := flags.String("scenario", "", "regular expression of the scenarios' names; empty: all")
	flags.IntVar(&o.Runs, "runs", 5, "times that each figure is measured")
	flags.DurationVar(&o.Duration, "duration", 2*time.Second, "time that each side of a comparison takes in one run")
	flags.DurationVar(&o.Slice, "slice", 250*time.Millisecond, "time after which it is another side's turn")
	flags.IntVar(&o.Callers, "callers", 32, "callers that call one after the other each")
	flags.IntVar(&o.Connections, "connections", 1, "gRPC connections that they share")
	flags.IntVar(&o.Targets, "targets", 10_000, "targets that are asked for in turn, at least as many as calls are in flight: 1024")
	flags.IntVar(&o.Stored, "stored", 1_000_000, "targets stored where that is what is measured, at least 100")
	flags.IntVar(&o.Rounds, "rounds", 21, "times that each target is asked for before anything is measured: 21 fill a history of the default behavior")
	flags.StringVar(&o.Program, "service", "", "the service's program; empty: it is built from the work tree")
	flags.StringVar(&o.Profiles, "profiles", "", "folder for profiles of the service under load; empty: none are taken")
	flags.StringVar(&o.json, "json", "", "file for the report as JSON")
	flags.StringVar(&o.markdown, "markdown", "", "file for the report as Markdown; without any file it goes to standard output")
	flags.StringVar(&o.update, "update", "", "Markdown file between whose markers the report goes; only with all scenarios")
	list := flags.Bool("list", false, "list the scenarios and measure nothing")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if *list {
		for _, s := range scenario.All {
			fmt.Printf("%-14s %s\n", s.Name, s.Title)
		}
		return nil, flag.ErrHelp
	}
	var err error
	if o.wanted, err = regexp.Compile(*pattern); err != nil {
		return nil, fmt.Errorf("-scenario: %w", err)
	}
	return o, o.validate(flags.Args(), *pattern != "")
}

// leastStored is the minimum of a meaningful number of stored targets.
const leastStored = 100

func (o *options) validate(rest []string, some bool) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case o.Runs < 1 || o.Duration <= 0 || o.Slice <= 0 || o.Callers < 1 || o.Connections < 1 || o.Rounds < 1:
		return errors.New("-runs, -duration, -slice, -callers, -connections and -rounds must be positive")
	case o.Targets < scenario.LeastTargets || o.Stored < leastStored:
		return fmt.Errorf("-targets must be at least %d and -stored %d", scenario.LeastTargets, leastStored)
	case o.update != "" && some:
		return errors.New("-update replaces all tables: leave out -scenario, or write to another file with -markdown")
	}
	return nil
}

// prepare completes Settings.
func (o *options) prepare(folder string) (err error) {
	o.Folder = folder
	o.Log = func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	if o.Root, err = process.Repository(); err != nil {
		return err
	}
	if o.Program == "" {
		if o.Program, err = process.Build("setpoint", false); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o.Bare = []string{self, bareCommand}
	if o.Profiles != "" {
		return os.MkdirAll(o.Profiles, 0o755)
	}
	return nil
}

// measure runs the scenarios. A failed one is left out, and its error returned.
func (o *options) measure(ctx context.Context) (*report.Report, error) {
	var failed error
	r := &report.Report{Machine: report.ThisMachine(o.Root), Settings: report.Settings{
		Runs: o.Runs, DurationSeconds: o.Duration.Seconds(), SliceSeconds: o.Slice.Seconds(), Callers: o.Callers,
		Connections: o.Connections, Targets: o.Targets, Stored: o.Stored, Command: strings.TrimSpace(o.command),
	}}
	for i := range scenario.All {
		s := &scenario.All[i]
		if !o.wanted.MatchString(s.Name) {
			continue
		}
		played, err := s.Play(ctx, o.Settings)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		r.Scenarios = append(r.Scenarios, played)
	}
	if failed == nil && len(r.Scenarios) == 0 {
		failed = fmt.Errorf("-scenario: no scenario's name matches %q (-list lists them)", o.wanted)
	}
	return r, failed
}
