// Command conformance proves Setpoint's profiles against the real controllers of
// Kubernetes: see README.md.
package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/setpoint-dev/setpoint/conformance/differential"
	"github.com/setpoint-dev/setpoint/conformance/staged"
)

const usage = `usage: go run . compare|stages|record [flags]

compare runs random and saved scenarios through Setpoint and the real controllers,
and fails if one comes out otherwise. stages does so with stages around the decision,
which the real controllers get as an edited input. record makes the recordings in
testdata of the real controllers again. -h after one of them lists its flags.
`

func main() { os.Exit(run(os.Args[1:])) }

// run runs a command and returns the exit code.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	commands := map[string]func(context.Context, []string) error{"compare": compare, "stages": stages, "record": record}
	command, ok := commands[args[0]]
	if !ok {
		fmt.Fprintf(os.Stderr, "unknown command %q\n\n%s", args[0], usage)
		return 2
	}
	if err := command(ctx, args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		return 1
	}
	return 0
}

// common are the flags of all commands.
type common struct {
	profiles string
	workers  int
}

func (c *common) bind(flags *flag.FlagSet) {
	flags.StringVar(&c.profiles, "profiles", c.profiles, "`profiles` to take, separated by commas; empty: all")
	flags.IntVar(&c.workers, "workers", 2, "controllers that are asked at a time")
}

func (c *common) versions() ([]differential.Version, error) {
	if c.profiles == "" {
		return differential.Versions(), nil
	}
	return differential.Named(strings.Split(c.profiles, ","))
}

func compare(ctx context.Context, args []string) error {
	var c common
	flags := flag.NewFlagSet("compare", flag.ExitOnError)
	c.bind(flags)
	steps := flags.Int("steps", 2000, "random `steps` to compare with each version, at least")
	seed := flags.Uint64("seed", 0, "first seed; 0: one that was never used, most likely")
	stages := flags.Int("stages", 0, "random `steps` to compare of each stage with each version that is compared with stages; 0: none")
	findings := flags.Int("findings", 1, "end with this `many` scenarios that come out otherwise")
	coverage := flags.Bool("coverage", false, "measure which statements of the controllers are run")
	report := flags.String("report", "", "write a report to this `file`")
	saved := flags.String("saved", filepath.Join("testdata", "saved"), "`folder` of saved scenarios; new ones that fail go there")
	if err := flags.Parse(args); err != nil {
		return err
	}
	versions, err := c.versions()
	if err != nil {
		return err
	}
	if *seed == 0 {
		*seed = freshSeed()
	}
	fmt.Printf("first seed %d\n", *seed)
	work, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	r := differential.Report{Sources: map[string]*differential.Source{}}
	found := 0
	for _, version := range versions {
		plan := differential.Plan{
			Version: version, Root: ".", Work: work, Seed: *seed, Steps: *steps, Workers: c.workers, Coverage: *coverage, MaxFindings: *findings,
		}
		if plan.Saved, err = differential.ReadSaved(*saved, version.Profile); err != nil {
			return err
		}
		result, err := plan.Run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", version.Profile, err)
		}
		r.Results = append(r.Results, result)
		found += len(result.Findings)
		if err := show(result, *saved); err != nil {
			return err
		}
		if r.Sources[version.Profile], err = version.ReadSource(ctx, "."); err != nil {
			return err
		}
	}
	if err := r.Summary(os.Stdout); err != nil {
		return err
	}
	if *report != "" {
		if err := write(*report, &r, "make conformance"); err != nil {
			return err
		}
	}
	versions = slices.DeleteFunc(versions, func(v differential.Version) bool { return !slices.Contains(staged.Profiles, v.Profile) })
	if *stages > 0 && len(versions) > 0 {
		names, err := staged.Named("")
		if err != nil {
			return err
		}
		p := staged.Plan{Root: ".", Work: work, Stages: names, Seed: *seed, Steps: *stages, Workers: c.workers}
		if err := withStages(ctx, versions, p, *report); err != nil {
			return err
		}
	}
	if found > 0 {
		return fmt.Errorf("%d scenarios come out otherwise than with the real controller", found)
	}
	return nil
}

func stages(ctx context.Context, args []string) error {
	c := common{profiles: strings.Join(staged.Profiles, ",")}
	flags := flag.NewFlagSet("stages", flag.ExitOnError)
	c.bind(flags)
	p := staged.Plan{Root: "."}
	flags.IntVar(&p.Steps, "steps", 1000, "random `steps` to compare of each stage with each version, at least")
	flags.Uint64Var(&p.Seed, "seed", 0, "first seed; 0: one that was never used, most likely")
	only := flags.String("only", "", "`stages` to compare, separated by commas; empty: all, and mixtures")
	report := flags.String("report", "", "write the section about stages of the report in this `file`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	versions, err := c.versions()
	if err != nil {
		return err
	}
	if p.Stages, err = staged.Named(*only); err != nil {
		return err
	}
	if p.Seed == 0 {
		p.Seed = freshSeed()
	}
	fmt.Printf("first seed %d\n", p.Seed)
	if p.Work, err = os.MkdirTemp("", "conformance-"); err != nil {
		return err
	}
	defer os.RemoveAll(p.Work)
	p.Workers = c.workers
	return withStages(ctx, versions, p, *report)
}

// withStages compares with stages, and writes the section of the report unless that is empty.
func withStages(ctx context.Context, versions []differential.Version, p staged.Plan, report string) error {
	r, err := staged.Run(ctx, versions, p)
	if err != nil {
		return err
	}
	if err := r.Summary(os.Stdout); err != nil {
		return err
	}
	if report != "" {
		if err := r.Replace(report); err != nil {
			return err
		}
	}
	if n := r.Findings(); n > 0 {
		return fmt.Errorf("%d scenarios with stages come out otherwise than with the real controller", n)
	}
	return nil
}

// show prints the findings, and saves them.
func show(result *differential.Result, folder string) error {
	for _, f := range result.Findings {
		file, err := f.Save(folder, result.Plan.Version.Profile)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s, step %d, saved in %s:\n", result.Plan.Version.Profile, f.Scenario.Name, len(f.Scenario.Steps), file)
		for _, d := range f.Differences {
			fmt.Printf("  %s\n", d)
		}
	}
	for _, example := range result.Census.Examples {
		fmt.Printf("%s: not compared: %s\n", result.Plan.Version.Profile, example)
	}
	return nil
}

func write(file string, r *differential.Report, command string) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return r.Markdown(f, command)
}

// freshSeed leaves a range above it for the following seeds.
func freshSeed() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])>>24 + 1
}

func record(ctx context.Context, args []string) error {
	var c common
	flags := flag.NewFlagSet("record", flag.ExitOnError)
	c.bind(flags)
	scenarios := flags.Int("scenarios", 120, "random `scenarios` to record of each version but the first")
	into := flags.String("into", filepath.Join("..", "clients", "kubernetes", "recording", "testdata"), "`folder` of the recordings")
	if err := flags.Parse(args); err != nil {
		return err
	}
	versions, err := c.versions()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for _, version := range versions {
		files, err := differential.Record(ctx, version, ".", work, *into, *scenarios)
		if err != nil {
			return fmt.Errorf("%s: %w", version.Profile, err)
		}
		for _, f := range files {
			fmt.Println(f)
		}
	}
	return nil
}
