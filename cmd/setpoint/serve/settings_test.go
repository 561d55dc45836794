package serve

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/internal/fatal"
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
	want.Recommend.Profile, want.Recommend.HistoryLimit = got.Recommend.Profile, got.Recommend.HistoryLimit
	want.Version, want.Page, want.AllowedHosts = got.Version, got.Page, got.AllowedHosts
	want.HistoryTTL = got.HistoryTTL             // the store's, which an embedded server's is not
	want.Recordings.Bytes = got.Recordings.Bytes // an embedded server keeps nothing by itself
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTheExampleFileHoldsTheDefaults(t *testing.T) {
	t.Parallel()
	s := defaultSettings()
	s.Tolerance, s.Server.MaxPods, s.Server.DrainTimeout = "0.9", 1, time.Hour // values that the file must restore
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	s.list().Bind(flags)
	config.AddFlag(flags)
	fatal.If(t, flags.Parse([]string{"--config", "../../../deploy/setpoint.yaml"}))
	fatal.If(t, config.Apply(flags, nil))
	if len(s.Redis.URLs) == 0 {
		s.Redis.URLs = nil // nil or empty makes no difference
	}
	if !reflect.DeepEqual(s, defaultSettings()) {
		t.Errorf("got %+v, want %+v", s, defaultSettings())
	}
}

func TestAllProblemsOfSettingsAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	s := defaultSettings()
	s.Log.Level, s.Log.Format, s.Profile, s.Tolerance = "loud", "xml", "v0.1", "-1"
	s.Server.Recommend.CPUInitializationPeriod, s.Server.RequestTimeout = -time.Second, 0
	s.Server.MaxPods, s.Kept.LogLength = 0, -1
	err := s.validate()
	if err == nil {
		t.Fatal("valid")
	}
	for _, flag := range []string{"log-level", "log-format", "profile", "tolerance", "cpu-initialization-period", "request-timeout", "max-pods", "decision-log-length"} {
		if !strings.Contains(err.Error(), "--"+flag+": ") {
			t.Errorf("nothing is said of --%s:\n%v", flag, err)
		}
	}
	if lines := strings.Split(err.Error(), "\n"); !slices.IsSorted(lines) {
		t.Errorf("in no fixed order:\n%v", err)
	}
}

// The delays are settings, too, and are remembered for as long as they run.
func TestDelaysAreSettings(t *testing.T) {
	t.Parallel()
	s := defaultSettings()
	s.Server.Recommend.UpscaleDelay, s.Server.Recommend.DownscaleDelay = 20*time.Second, 3*time.Hour
	if err := s.validate(); err != nil {
		t.Error(err)
	}
	if o := s.options().Recommend; o.UpscaleDelay != 20*time.Second || o.DownscaleDelay != 3*time.Hour {
		t.Errorf("%+v", o)
	}
	for name, change := range map[string]func(*settings){
		"--upscale-delay: -1ns is negative":                       func(s *settings) { s.Server.Recommend.UpscaleDelay = -1 },
		"--downscale-delay: -1ns is negative":                     func(s *settings) { s.Server.Recommend.DownscaleDelay = -1 },
		"--history-ttl: 24h0m0s is shorter than the longest stab": func(s *settings) { s.Server.Recommend.UpscaleDelay = 25 * time.Hour },
		"--history-ttl: 24h0m0s is shorter than the longest":      func(s *settings) { s.Server.Recommend.DownscaleDelay = 25 * time.Hour },
	} {
		s := defaultSettings()
		change(&s)
		if err := s.validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %s", err, name)
		}
	}
}

// A target must not be forgotten while its history still decides.
func TestTheHistoryOutlivesTheLongestWindow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ttl, downscale time.Duration
		refused        bool
	}{
		{time.Hour, 0, false}, {time.Hour - 1, 0, true}, {time.Minute, 0, true}, {0, 0, false},
		{2 * time.Hour, 2 * time.Hour, false}, {time.Hour, 2 * time.Hour, true}, {0, 2 * time.Hour, false},
	} {
		s := defaultSettings()
		s.Kept.TTL, s.Server.Recommend.DownscaleStabilization = tt.ttl, tt.downscale
		err := s.validate()
		if (err != nil) != tt.refused || err != nil && !strings.Contains(err.Error(), "--history-ttl: "+tt.ttl.String()+" is shorter than the longest stabilization window") {
			t.Errorf("a history of %s with a window of %s: %v", tt.ttl, tt.downscale, err)
		}
	}
}
