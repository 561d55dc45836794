package main

import (
	"encoding/json"
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
