//go:build linux

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == honestArgument {
		fmt.Fprintln(os.Stderr, behaveHonestly(os.Args[2:]))
		os.Exit(2)
	}
	held, err := attackAll()
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		os.Exit(2)
	}
	if !held {
		os.Exit(1)
	}
}

// errUsage means that the flags make no sense.
var errUsage = errors.New("no attack has such a name: see -list")

func attackAll() (held bool, err error) {
	list := flag.Bool("list", false, "list the attacks, and throw none")
	pattern := flag.String("run", "", "throw only those whose `name`/step matches")
	short := flag.Bool("short", false, "throw fewer, each fewer times: for every change; without it all, for the night")
	output := flag.String("json", "", "write what each came to into this `file`")
	program := flag.String("program", "", "`path` of the program to attack; default: built from this tree")
	verbose := flag.Bool("v", false, "say what attacks met")
	flag.Parse()
	matches, err := regexp.Compile(*pattern)
	if err != nil {
		return false, err
	}
	wanted := func(a *attack) func(*step) bool {
		return func(s *step) bool { return matches.MatchString(a.name+"/"+s.name) && (s.short || !*short) }
	}
	var chosen []*attack
	for _, a := range attacks() {
		for i := range a.steps {
			if wanted(a)(&a.steps[i]) {
				chosen = append(chosen, a)
				break
			}
		}
	}
	if len(chosen) == 0 {
		return false, errUsage
	}
	if *list {
		listed(chosen, wanted)
		return true, nil
	}
	if *program == "" {
		if *program, err = service.Program(); err != nil {
			return false, err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	r := &runner{program: *program, times: 3, say: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }}
	if *short {
		r.times = 2
	}
	var all []*outcome
	var problems []error
	for _, a := range chosen {
		outcomes, err := r.run(ctx, a, wanted(a))
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", a.name, err))
		}
		for _, o := range outcomes {
			r.say("%s", o.line())
			if *verbose {
				r.say("    met %s\n    left %d MiB of heap", o.Met, o.LeftMiB)
			}
		}
		all = append(all, outcomes...)
		if ctx.Err() != nil {
			break
		}
	}
	print(all)
	if *output != "" {
		text, err := json.MarshalIndent(all, "", "  ")
		if err != nil {
			return false, err
		}
		problems = append(problems, os.WriteFile(*output, append(text, '\n'), 0o644))
	}
	held = len(all) > 0
	missed := 0
	for _, o := range all {
		if len(o.Missed) > 0 {
			held = false
			missed++
		}
	}
	fmt.Printf("%d attacks in %v, %d missed bounds\n", len(all), time.Since(began).Round(time.Second), missed)
	for _, o := range all { // once more, for who reads only the last lines
		if len(o.Missed) > 0 {
			fmt.Printf("%s; its heap: %s\n", o.line(), o.Heap)
		}
	}
	return held, errors.Join(append(problems, ctx.Err())...)
}

func listed(chosen []*attack, wanted func(*attack) func(*step) bool) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "attack\titem\tshort\twhat is sent")
	for _, a := range chosen {
		for i := range a.steps {
			s := &a.steps[i]
			if !wanted(a)(s) {
				continue
			}
			item, short := a.item, ""
			item = cmp.Or(item, "-")
			if s.short {
				short = "yes"
			}
			fmt.Fprintf(w, "%s/%s\t%s\t%s\t%s\n", a.name, s.name, item, short, a.about)
		}
	}
}

func (o *outcome) verdict() string {
	if len(o.Missed) == 0 {
		return "held"
	}
	return strings.Join(o.Missed, "; ")
}

func (o *outcome) line() string {
	return fmt.Sprintf("%s/%s: %s, %d → %d MiB, %v: %.300s", o.Attack, o.Step, size(o.Bytes), o.BeforeMiB, o.PeakMiB, brief(o.Processor), o.verdict())
}

// print prints the table.
func print(all []*outcome) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "attack\tsent\tpeak MiB (allowed)\tprocessor (allowed)\thonest p50 (quiet)\tp99 (quiet)\tworst\terrors\tverdict")
	for _, o := range all {
		fmt.Fprintf(w, "%s/%s\t%s\t%d (%d)\t%s (%s)\t%s (%s)\t%s (%s)\t%s\t%d/%d\t%.160s\n", o.Attack, o.Step, size(o.Bytes),
			o.PeakMiB, o.MemoryMiB, brief(o.Processor), brief(o.ProcessorBound), brief(o.Honest.P50), brief(o.Quiet.P50),
			brief(o.Honest.P99), brief(o.Quiet.P99), brief(o.Honest.Worst), o.Honest.Failed, o.Honest.Calls, o.verdict())
	}
}

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// brief is a duration for people.
func brief(d time.Duration) string {
	if d > time.Second {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}
