package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hpa"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/scenario"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const examples = "../../examples/simulation/"

// small is a scenario with everything that shows: a shortage, a queue, a price, changes. At its period
// the step by step forms are short.
const small = `
duration: 30m
loop: {syncPeriod: 1m}
price: 0.04
load: [{ramp: {from: 20, to: 200, for: 10m}}, {spike: {height: 150, at: 5m, for: 1m}}, {step: {from: 60, to: 0, at: 20m}}]
workload:
  requests: {cpu: 500m}
  capacity: 40
  startup: 30s
  queue: {size: 2000, timeout: 30s}
  usage: [{metric: cpu, perLoad: 10m}]
events: [{at: 12m, kill: 2}]
`

// report runs the example's autoscalers.
func report(t *testing.T, each func(string, *simulation.Step) error, done func(*simulation.Scenario, *Run) error) *Report {
	t.Helper()
	s, err := scenario.Read(t.Context(), "small.yaml", []byte(small), nil, nil)
	fatal.If(t, err)
	r := &Report{Name: "small.yaml", Scenario: s}
	for _, name := range []string{"hpa.yaml", "careful.yaml"} {
		file, err := os.Open(examples + name)
		fatal.If(t, err)
		read, err := hpa.ReadOne(name, file)
		err = errors.Join(err, file.Close())
		fatal.If(t, err)
		a, err := read.Engine(nil)
		fatal.If(t, err)
		run := Run{Name: name, Plot: NewPlot(s.Duration)}
		run.Result, err = simulation.Run(s, a, func(step *simulation.Step) error {
			run.Plot.Add(step)
			return each(name, step)
		})
		fatal.If(t, err)
		r.Runs = append(r.Runs, run)
		fatal.If(t, done(s, &run))
	}
	return r
}

func skip(string, *simulation.Step) error { return nil }

func leave(*simulation.Scenario, *Run) error { return nil }

func compare(t *testing.T, name string, got []byte) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		fatal.If(t, os.WriteFile(path, got, 0o600))
	}
	want := testpages.Read(t, path)
	if !bytes.Equal(got, []byte(want)) {
		t.Errorf("differs from %s (-update rewrites it):\n%s", path, got)
	}
}

func TestGoldenForms(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(io.Writer, *Report) error{"table.txt": WriteTable, "picture.svg": WriteSVG, "page.html": WriteHTML} {
		var out bytes.Buffer
		fatal.If(t, write(&out, report(t, skip, leave)))
		compare(t, name, out.Bytes())
	}
	var lines, table bytes.Buffer
	j := NewJSON(&lines)
	report(t, j.Step, j.Figures)
	compare(t, "lines.json", lines.Bytes())
	c, err := NewCSV(&table)
	fatal.If(t, err)
	report(t, c.Step, leave)
	fatal.If(t, c.Close())
	compare(t, "steps.csv", table.Bytes())
}

// The page needs nothing else and runs nothing, whatever names say.
func TestAPageHasNothingInItButItself(t *testing.T) {
	t.Parallel()
	r := report(t, skip, leave)
	const attack = `<script>alert(1)</script>"onload="x`
	r.Name = attack
	r.Inputs = []Input{{attack, attack + strings.Repeat("ä", maxShown)}}
	for i := range r.Runs {
		r.Runs[i].Name = attack
		for k := range r.Runs[i].Result.Actions {
			r.Runs[i].Result.Actions[k].Reason = attack
		}
	}
	var page, picture bytes.Buffer
	fatal.If(t, errors.Join(WriteHTML(&page, r), WriteSVG(&picture, r)))
	for name, text := range map[string]string{"page": page.String(), "picture": picture.String()} {
		if strings.Contains(text, "<script") || strings.Contains(text, `"onload`) || regexp.MustCompile(`(src|href)=|url\(|@import`).MatchString(text) {
			t.Errorf("the %s has a script, or needs something:\n%s", name, text)
		}
		if !strings.Contains(text, "&lt;script&gt;") {
			t.Errorf("the %s does not show the name", name)
		}
	}
	if more := fmt.Sprintf("<p>and %d bytes more</p>", maxShown+len(attack)); !strings.Contains(page.String(), more) || page.Len() > 3*maxShown {
		t.Errorf("the page has %d bytes, of which an input is cut, and does not say %q", page.Len(), more)
	}
	decoder := xml.NewDecoder(&picture)
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestWordsForTimesAndNumbers(t *testing.T) {
	t.Parallel()
	for in, want := range map[float64]string{0: "0", 0.001234: "0.00123", 99.96: "100", 12.345: "12.3", 123456: "123456", 1.5e12: "1.5e+12"} {
		if got := number3(in); got != want {
			t.Errorf("number3(%g) = %s, want %s", in, got, want)
		}
	}
	for in, want := range map[float64]string{0: "0s", 59.6: "1m", 45: "45s", 3600: "1h", 3661: "1h1m1s", 90000: "1d1h"} {
		if got := Span(seconds(in)); got != want {
			t.Errorf("Span(%g s) = %s, want %s", in, got, want)
		}
	}
	for in, want := range map[float64]string{0: "0 s", 45.4: "45 s", 59.6: "1 min", 754: "12 min 34 s", 67965: "18 h 53 min", 86399: "1 d", 90000: "1 d 1 h"} {
		if got := spaced(seconds(in)); got != want {
			t.Errorf("spaced(%g s) = %s, want %s", in, got, want)
		}
	}
	for in, want := range map[float64]string{12.345: "12.3", 999: "999", 5760: "5\u2009760", 19867750: "19\u2009867\u2009750", 2e9: "2\u2009000\u2009000\u2009000", math.Inf(1): "unlimited"} {
		if got := grouped(in); got != want {
			t.Errorf("grouped(%g) = %s, want %s", in, got, want)
		}
	}
	for in, want := range map[float64]float64{0: 1, 0.3: 0.5, 1: 1, 1.1: 2, 3: 5, 7: 10, 450: 500} {
		if got := niceStep(in); got != want {
			t.Errorf("niceStep(%g) = %g, want %g", in, got, want)
		}
	}
}

// An hour that comes twice, because clocks are set back, is told apart.
func TestInstantsOfADayOnWhichClocksAreSet(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	fatal.If(t, err)
	s := &simulation.Scenario{Start: time.Date(2026, 10, 25, 0, 0, 0, 0, berlin), Duration: 6 * time.Hour}
	if first, second := instantOf(s, 150*time.Minute), instantOf(s, 210*time.Minute); first != "02:30:00 CEST" || second != "02:30:00 CET" {
		t.Errorf("%s, then %s", first, second)
	}
	if s.Duration = 3 * time.Hour; instantOf(s, 150*time.Minute) != "02:30:00" {
		t.Errorf("%s of a time without", instantOf(s, 150*time.Minute))
	}
	if s.Start, s.Duration = s.Start.UTC(), 48*time.Hour; instantOf(s, 150*time.Minute) != "Sun 25 Oct 00:30:00" {
		t.Errorf("%s in UTC", instantOf(s, 150*time.Minute))
	}
}

// A scale for values that are next to nothing has lines, and an end.
func TestAScaleForNextToNothing(t *testing.T) {
	t.Parallel()
	for _, f := range []float64{math.SmallestNonzeroFloat64, 1e-320, 1e-300, 1e-12} {
		if step := niceStep(f); step < f || step > 1e-11 {
			t.Errorf("niceStep(%g) = %g", f, step)
		}
	}
}

func seconds(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }

// A name that a spreadsheet would compute is text, and one that would paint a terminal is plain.
func TestNamesAreText(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"hpa.yaml": "hpa.yaml", `=HYPERLINK("x")`: `'=HYPERLINK("x")`, "+1": "'+1", "-1": "'-1", "@a": "'@a", "\tx": "\ufffdx", "a\x1b[2Jb\r\nc": "a\ufffd[2Jb\ufffd\ufffdc", "a=b": "a=b",
	} {
		if got := cell(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	r := &Report{Name: "s\x1b[31m", Scenario: &simulation.Scenario{Duration: time.Hour, Start: scenario.DefaultStart}, Runs: []Run{{
		Name: "h\x1b[31m", Result: &simulation.Result{Actions: []simulation.Action{{From: 1, To: 2, Reason: "q\x1b[31m"}}},
	}}}
	var text strings.Builder
	fatal.If(t, WriteTable(&text, r))
	if strings.Contains(text.String(), "\x1b") || strings.Count(text.String(), "\ufffd[31m") != 4 {
		t.Errorf("%q", text.String())
	}
}

// Marks of days are at midnight, also after clocks have changed.
func TestMarksFollowTheClock(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Europe/Berlin")
	fatal.If(t, err)
	for start, want := range map[time.Time]string{
		time.Date(2026, 10, 18, 0, 0, 0, 0, zone): "[Sun 18 Oct Tue 20 Oct Thu 22 Oct Sat 24 Oct Mon 26 Oct Wed 28 Oct Fri 30 Oct Sun 1 Nov]",
		time.Date(2026, 3, 22, 0, 0, 0, 0, zone):  "[Sun 22 Mar Tue 24 Mar Thu 26 Mar Sat 28 Mar Mon 30 Mar Wed 1 Apr Fri 3 Apr Sun 5 Apr Tue 7 Apr]",
	} {
		var out strings.Builder
		(&panel{}).drawTimes(&out, &Report{Scenario: &simulation.Scenario{Start: start, Duration: 16 * 24 * time.Hour}}, 0)
		var marks []string
		for _, found := range regexp.MustCompile(`>([^<]+)</text>`).FindAllStringSubmatch(out.String(), -1) {
			marks = append(marks, found[1])
		}
		if got := fmt.Sprint(marks); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A cause may have the name of a metric, which may be any text.
func TestCausesArePlain(t *testing.T) {
	t.Parallel()
	const cause = "fallback External:q\x1b[31m\tx"
	load, err := simulation.Constant(1)
	fatal.If(t, err)
	result := &simulation.Result{Actions: []simulation.Action{{From: 1, To: 2, Cause: cause}}}
	result.Figures.Causes = []simulation.CauseTime{{Cause: cause, Time: time.Hour}}
	r := &Report{Scenario: &simulation.Scenario{Duration: time.Hour, Load: load}, Runs: []Run{{Name: "a", Result: result}}}
	var out bytes.Buffer
	c, err := NewCSV(&out)
	fatal.If(t, err)
	step := &simulation.Step{Cause: cause, Decision: &recommender.Decision{}, At: 1_000_005 * time.Second, Served: 417_000_000, Load: 1e-7}
	fatal.If(t, errors.Join(c.Step("a", step), c.Close(), WriteTable(&out, r)))
	if !strings.Contains(out.String(), ",1000005,0.0000001,") || !strings.Contains(out.String(), ",417000000,") {
		t.Errorf("numbers with exponents: %q", out.String())
	}
	if strings.ContainsAny(out.String(), "\x1b\t") || strings.Count(out.String(), "fallback External:q") != 3 {
		t.Errorf("%q", out.String())
	}
	if !regexp.MustCompile(`short of capacity +–\n`).Match(out.Bytes()) { // its pods serve any load
		t.Errorf("a shortage is known: %q", out.String())
	}
}
