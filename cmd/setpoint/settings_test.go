package main

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/cmd/setpoint/config"
	"github.com/setpoint-dev/setpoint/server"
)

func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	s := defaultSettings()
	if err := s.validate(); err != nil {
		t.Error(err)
	}
}

// The defaults of the service are stated once, in package server.
func TestDefaultSettingsAreTheServersDefaults(t *testing.T) {
	t.Parallel()
	s := defaultSettings()
	got, want := s.options(), server.DefaultOptions()
	if got.Recommend.Profile.Name() != "v1.36" {
		t.Errorf("profile %s", got.Recommend.Profile.Name())
	}
	got.Recommend.Profile, got.Recommend.HistoryLimit = nil, 0
	got.Version = want.Version
	if got.Recommend != want.Recommend {
		t.Errorf("got %+v, want %+v", got.Recommend, want.Recommend)
	}
	got.Recommend, want.Recommend = server.DefaultOptions().Recommend, server.DefaultOptions().Recommend
	if got.MaxPods != want.MaxPods || got.MaxBatch != want.MaxBatch || got.RequestTimeout != want.RequestTimeout ||
		got.AnswerRetention != want.AnswerRetention || got.AnswerLimit != want.AnswerLimit || got.DrainTimeout != want.DrainTimeout ||
		got.MaxRequestBytes != want.MaxRequestBytes || got.MaxStreamInFlight != want.MaxStreamInFlight || got.MaxAttempts != want.MaxAttempts {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTheExampleFileHoldsTheDefaults(t *testing.T) {
	t.Parallel()
	s := defaultSettings()
	s.Tolerance, s.MaxPods, s.DrainTimeout = "0.9", 1, time.Hour // what the file must bring back
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	s.bind(flags)
	config.AddFlag(flags)
	if err := flags.Parse([]string{"--config", "../../deploy/setpoint.yaml"}); err != nil {
		t.Fatal(err)
	}
	if err := config.Apply(flags, nil); err != nil {
		t.Fatal(err)
	}
	if len(s.Redis.URLs) == 0 {
		s.Redis.URLs = nil // no matter which kind of none
	}
	if !reflect.DeepEqual(s, defaultSettings()) {
		t.Errorf("got %+v, want %+v", s, defaultSettings())
	}
}

func TestGeneratedDocumentsAreUpToDate(t *testing.T) {
	t.Parallel()
	for document, path := range map[string]string{
		"configuration":  "../../docs/configuration.md",
		"example-config": "../../deploy/setpoint.yaml",
		"metrics":        "../../docs/metrics.md",
	} {
		committed, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := run(t, "", "docs", document); got.stdout != string(committed) {
			t.Errorf("%s is out of date: run make generate", path)
		}
	}
}

func TestAllProblemsOfSettingsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	s := defaultSettings()
	s.LogLevel, s.LogFormat, s.Profile, s.Tolerance = "loud", "xml", "v0.1", "-1"
	s.CPUInitializationPeriod, s.RequestTimeout = -time.Second, 0
	s.MaxPods, s.DecisionLogLength = 0, -1
	err := s.validate()
	if err == nil {
		t.Fatal("valid")
	}
	for _, flag := range []string{"log-level", "log-format", "profile", "tolerance", "cpu-initialization-period", "request-timeout", "max-pods", "decision-log-length"} {
		if !strings.Contains(err.Error(), "--"+flag+": ") {
			t.Errorf("nothing is said of --%s:\n%v", flag, err)
		}
	}
}
