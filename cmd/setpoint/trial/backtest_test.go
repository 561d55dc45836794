package trial

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/replay"
)

func TestBacktestTellsWhatAnotherSpecDecides(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	const curated = "../../../clients/kubernetes/recording/testdata/curated.jsonl.gz"
	got := run(t, "", "backtest", "--spec", careful, "-o", "json", curated)
	lines := strings.Split(strings.TrimSpace(got.Stdout), "\n")
	if got.Code != 0 || len(lines) != 427 {
		t.Fatalf("exit code %d, %d lines\n%s", got.Code, len(lines), got.Stderr)
	}
	different := 0
	for _, line := range lines {
		var b replay.Backtest
		if err := json.Unmarshal([]byte(line), &b); err != nil || b.Mismatched != 0 {
			t.Fatalf("%v\n%s", err, line)
		}
		different += b.Different
	}
	if different < 500 {
		t.Errorf("%d steps come out otherwise", different)
	}
}

// The first line says how much the back-test covers, the figures follow, and what nobody can know.
func TestBacktestInAClosedLoop(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	const flight = "../../../examples/simulation/flight.jsonl.gz"
	got := run(t, "", "backtest", "--spec", careful, flight)
	for _, want := range []string{
		"shop/web: 100.0 % of 2h59m45s covered: 5.1 % as recorded, 94.9 % modelled\n", "its own spec reproduces it, at all 720 steps",
		"closed loop     recorded                     this spec", "replica-hours   45.1 ",
		"new pods are ready after 32s, the median of 40 that were recorded", "not known: whether pods were full", "18:00:00  13 → 16, recorded 13: cpu",
		"each step on its own", "another count at 560 of 720 steps",
	} {
		if !strings.Contains(got.Stdout, want) {
			t.Errorf("%q is missing in\n%s", want, got.Stdout)
		}
	}
	if !strings.HasPrefix(got.Stdout, "shop/web: 100.0 % ") || got.Code != 0 {
		t.Errorf("exit code %d\n%s%s", got.Code, got.Stdout, got.Stderr)
	}
	limited := run(t, "", "backtest", "--spec", careful, "--cpu-limit=1", "--idle=cpu=20m", flight)
	for _, want := range []string{"modelled, of which 0.1 % a lower bound", "short of CPU    15s                          0s"} {
		if !strings.Contains(limited.Stdout, want) || strings.Contains(limited.Stdout, "not known") {
			t.Errorf("want %q and nothing unknown in\n%s", want, limited.Stdout)
		}
	}
	if own := run(t, "", "backtest", "--spec", "../../../examples/simulation/hpa.yaml", flight); !strings.Contains(own.Stdout, "100.0 % of 2h59m45s covered: 100.0 % as recorded\n") {
		t.Errorf("its own spec:\n%s", own.Stdout)
	}
}

// A fortnight of forty replicas has no exponent.
func TestBacktestWritesLargeNumbers(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	writeSides(&out, &replay.ClosedSide{ReplicaHours: 13440}, nil, &replay.ClosedSide{ReplicaHours: 13394.7}, "")
	if !strings.Contains(out.String(), "13440") || !strings.Contains(out.String(), "13395") {
		t.Error(out.String())
	}
}

// measured writes what a cluster's monitoring would have of a simulated day with hpa.yaml, with
// half an hour missing, and a scenario of it.
func measured(t *testing.T) (scenario, count string) {
	t.Helper()
	day := run(t, "", "simulate", "-f", "../../../examples/simulation/web.yaml", "../../../examples/simulation/hpa.yaml", "-o", "csv")
	rows, err := csv.NewReader(strings.NewReader(day.Stdout)).ReadAll()
	if err != nil || day.Code != 0 {
		t.Fatal(err, day.Stderr)
	}
	var usage, counts strings.Builder
	counts.WriteString("Time;Replicas\r\n")
	for _, row := range rows[1:] {
		offset, err := strconv.Atoi(row[2])
		load, loadErr := strconv.ParseFloat(row[3], 64)
		if err != nil || loadErr != nil {
			t.Fatal(row)
		}
		if offset%30 != 0 || (offset > 36000 && offset < 37800) {
			continue
		}
		fmt.Fprintf(&usage, "%s,%g\n", row[1], load/100)
		fmt.Fprintf(&counts, "%s;%s\r\n", row[1], row[5])
	}
	folder := t.TempDir()
	for name, text := range map[string]string{
		"usage.csv": usage.String(), "count.csv": counts.String(),
		"usage.yaml": "load: [{csv: {file: usage.csv}}]\nworkload:\n  requests: {cpu: 500m}\n  capacity: 0.98\n  startup: 30s\n  usage: [{metric: cpu, perLoad: \"1\", idle: 20m}]\n",
	} {
		fatal.If(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	return filepath.Join(folder, "usage.yaml"), filepath.Join(folder, "count.csv")
}

// A recorded load says how much is covered first, then how near the model is to what was there.
func TestBacktestOfARecordedLoad(t *testing.T) {
	t.Parallel()
	scenario, count := measured(t)
	const own = "../../../examples/simulation/hpa.yaml"
	got := run(t, "", "backtest", "--spec", careful, "-f", scenario, "--own", own, "--replicas", count, "-o", "json")
	var b replay.LoadBacktest
	if err := json.Unmarshal([]byte(got.Stdout), &b); err != nil || got.Code != 0 {
		t.Fatal(err, got.Stderr)
	}
	// Half an hour without samples, of which the last one before stands for five minutes.
	if b.SpanSeconds != 86370 || b.CoveredSeconds != 86370-1500 {
		t.Errorf("%g s of %g are covered", b.CoveredSeconds, b.SpanSeconds)
	}
	if b.Same == nil || *b.Same < 0.7 || *b.Near < 0.98 || b.Own == nil || b.Recorded == nil || b.LowerBoundSeconds == nil {
		t.Fatalf("too far from what was recorded:\n%s", got.Stdout)
	}
	if off := b.Own.ReplicaHours/b.Recorded.ReplicaHours - 1; off < -0.01 || off > 0.01 {
		t.Errorf("its own spec takes %g replica-hours, %g were recorded", b.Own.ReplicaHours, b.Recorded.ReplicaHours)
	}
	if b.Other.ReplicaHours < 1.2*b.Own.ReplicaHours || b.Other.Least != 3 {
		t.Errorf("the other one: %+v", b.Other)
	}
	text := run(t, "", "backtest", "--spec", careful, "-f", scenario, "--own", own, "--replicas", count)
	first, _, _ := strings.Cut(text.Stdout, "\n")
	if !strings.Contains(first, "usage.yaml: 98.3 % of 23h59m30s covered by usage.csv, all of it modelled") || !strings.HasSuffix(first, "1.7 % not recorded") {
		t.Errorf("the first line is %q", first)
	}
	if !strings.Contains(text.Stdout, "its own spec, modelled, has the recorded count for 78.4 % of that time, one off or less for 99.9 %") {
		t.Error(text.Stdout)
	}
	// Where the count is not known no side counts: with one of a single hour all are about that hour.
	lines := strings.SplitAfter(testpages.Read(t, count), "\n")
	hour := filepath.Join(t.TempDir(), "hour.csv")
	fatal.If(t, os.WriteFile(hour, []byte(strings.Join(lines[:121], "")), 0o600))
	part := run(t, "", "backtest", "--spec", careful, "-f", scenario, "--own", own, "--replicas", hour, "-o", "json")
	b = replay.LoadBacktest{}
	if err := json.Unmarshal([]byte(part.Stdout), &b); err != nil || b.CoveredSeconds+b.UncountedSeconds != 86370-1500 || b.CoveredSeconds > 4200 ||
		b.Recorded.ReplicaHours > 5 || b.Own.ReplicaHours > 5 || b.Other.ReplicaHours > 6 {
		t.Errorf("%v\n%s%s", err, part.Stdout, part.Stderr)
	}
	less := run(t, "", "backtest", "--spec", careful, "-f", scenario)
	for _, want := range []string{"not known: how near the model is; --own and --replicas", "not known: whether pods were full"} {
		if !strings.Contains(less.Stdout, want) {
			t.Errorf("want %q in\n%s", want, less.Stdout)
		}
	}
	if told := run(t, "", "simulate", "-f", scenario, own); !strings.Contains(told.Stderr, "recorded load covers 98.3 % of the time; straight lines fill the gaps (1, the longest 25m at 2026-01-05T10:05:00Z)") {
		t.Errorf("simulate says %q", told.Stderr)
	}
	// Files that are no recordings are not complained of line by line.
	told := run(t, strings.Repeat("0,1\n", 5000), "backtest", "--spec", careful, "-")
	if n := strings.Count(told.Stderr, "\n"); told.Code != cli.ExitUsage || n > 20 || !strings.Contains(told.Stderr, "names it with --file") {
		t.Errorf("exit code %d, %d lines\n%.300s", told.Code, n, told.Stderr)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"-f", own}, "is a spec, not a scenario"},
		{[]string{"-f", scenario, "flight.jsonl"}, "--file replaces recordings"},
		{[]string{"-f", "../../../examples/simulation/web.yaml"}, "has no recorded load"},
		{[]string{"-f", scenario, "--idle=cpu=1m"}, "--idle only applies to recordings"},
		{[]string{"--own", own, "flight.jsonl"}, "--own only applies with --file"},
		{[]string{"-f", scenario, "--replicas", careful}, "--replicas: "},
		{[]string{"-f", scenario, "--own", "nowhere.yaml"}, "nowhere.yaml"},
	} {
		if got := run(t, "", append([]string{"backtest", "--spec", careful}, tt.args...)...); got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, tt.want) {
			t.Errorf("%v: exit code %d\n%s", tt.args, got.Code, got.Stderr)
		}
	}
}

// The page shows what the command prints.
func TestThePageShowsTheBacktest(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Chdir("../../..")
	page := testpages.Read(t, "docs/guides/simulation.md")
	const command = "backtest --spec examples/simulation/careful.yaml --cpu-limit=1 --idle=cpu=20m examples/simulation/flight.jsonl.gz"
	got := run(t, "", strings.Fields(command)...)
	shown, _, _ := strings.Cut(got.Stdout, "  assumed where")
	if got.Code != 0 || !strings.Contains(page, "setpoint "+command+"\n") || !strings.Contains(page, shown+"…\n") {
		t.Errorf("exit code %d, or docs/guides/simulation.md does not show:\n%s%s", got.Code, shown, got.Stderr)
	}
}

func TestBacktestRefusesInvalidAmounts(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{
		"--cpu-limit=much": `--cpu-limit: "much" must be a quantity above 0`, "--cpu-limit=0": "must be a quantity above 0",
		"--idle=cpu=-1": "must be a quantity of at least 0", "--idle=cups=1": `"cups" is not supported`, "--idle=cpu": "must be formatted as key=value",
	} {
		if got := run(t, "", "backtest", "--spec", careful, flag, "-"); got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, want) {
			t.Errorf("%s: exit code %d\n%s", flag, got.Code, got.Stderr)
		}
	}
}

func TestBacktestIsNoSuccessWithoutReproducing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, stdin string
		args        []string
		code        int
		want        string
	}{
		{"reproduced", clitest.Recorded(t, "good", true), []string{"--spec", careful, "-"}, 0, "its own spec reproduces it"},
		{"nothing to reproduce", clitest.Recorded(t, "silent", false), []string{"--spec", careful, "-"}, 0, "its own decisions were not recorded"},
		{"not reproduced", clitest.Altered(t, "odd", `"desiredReplicas":5`, `"desiredReplicas":4`), []string{"--spec", careful, "-"}, cli.ExitFailed, "NOT REPRODUCED: its own spec decides otherwise at 1 of 1 steps"},
		{"no spec", "", []string{"-"}, cli.ExitUsage, "--spec is required"},
		{"no scenario", "{\n", []string{"--spec", careful, "-"}, cli.ExitUsage, "-:1: "},
		{"nothing", "", []string{"--spec", careful, "-"}, cli.ExitUsage, "-: holds no scenario"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := run(t, tt.stdin, append([]string{"backtest"}, tt.args...)...)
			if got.Code != tt.code || !strings.Contains(got.Stdout+got.Stderr, tt.want) {
				t.Errorf("exit code %d, want %d and %q\n%s\n%s", got.Code, tt.code, tt.want, got.Stdout, got.Stderr)
			}
		})
	}
}
