package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/setpoint/replay"
)

func TestBacktestTellsWhatAnotherSpecDecides(t *testing.T) {
	t.Parallel()
	const curated = "../../clients/kubernetes/recording/testdata/curated.jsonl.gz"
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
	t.Parallel()
	const flight = "../../examples/simulation/flight.jsonl.gz"
	got := run(t, "", "backtest", "--spec", careful, flight)
	for _, want := range []string{
		"shop/web: 100.0 % of 2h59m45s covered: 5.1 % as recorded, 94.9 % modelled\n", "its own spec reproduces it, at all 720 steps",
		"closed loop     recorded                     this spec", "replica-hours   45.1 ",
		"new pods are ready after 32s, the median of 40 that were recorded", "not known: whether pods were full", "18:00:00  13 → 16, recorded 13: cpu",
		"each step by itself", "another count at 560 of 720 steps",
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
	if own := run(t, "", "backtest", "--spec", "../../examples/simulation/hpa.yaml", flight); !strings.Contains(own.Stdout, "100.0 % of 2h59m45s covered: 100.0 % as recorded\n") {
		t.Errorf("its own spec:\n%s", own.Stdout)
	}
}

// The page shows what the command prints.
func TestThePageShowsTheBacktest(t *testing.T) {
	t.Chdir("../..")
	page, err := os.ReadFile("docs/guides/simulation.md")
	if err != nil {
		t.Fatal(err)
	}
	const command = "backtest --spec examples/simulation/careful.yaml --cpu-limit=1 --idle=cpu=20m examples/simulation/flight.jsonl.gz"
	got := run(t, "", strings.Fields(command)...)
	shown, _, _ := strings.Cut(got.Stdout, "  assumed where")
	if got.Code != 0 || !strings.Contains(string(page), "setpoint "+command+"\n") || !strings.Contains(string(page), shown+"…\n") {
		t.Errorf("exit code %d, or docs/guides/simulation.md does not show:\n%s%s", got.Code, shown, got.Stderr)
	}
}

func TestBacktestRefusesWhatIsNoAmount(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{
		"--cpu-limit=much": `--cpu-limit: "much" must be a quantity above 0`, "--cpu-limit=0": "must be a quantity above 0",
		"--idle=cpu=-1": "must be a quantity of at least 0", "--idle=cups=1": `"cups" is no resource of pods`, "--idle=cpu": "must be formatted as key=value",
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
		{"reproduced", recorded(t, "good", true), []string{"--spec", careful, "-"}, 0, "its own spec reproduces it"},
		{"nothing to reproduce", recorded(t, "silent", false), []string{"--spec", careful, "-"}, 0, "its own decisions were not recorded"},
		{"not reproduced", altered(t, "odd", `"desiredReplicas":5`, `"desiredReplicas":4`), []string{"--spec", careful, "-"}, cli.ExitFailed, "NOT REPRODUCED: its own spec decides otherwise at 1 of 1 steps"},
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
