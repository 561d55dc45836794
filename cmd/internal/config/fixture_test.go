package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// options are settings of every type that matters.
type options struct {
	Address  string
	MaxPods  int
	Port     uint16
	Rate     float64
	Timeout  time.Duration
	Explain  bool
	Origins  []string
	Headers  []string
	Weights  []int
	Backoffs []time.Duration
	Level    level
	// Wait and Admin are of no flag of newFlags.
	Wait  time.Duration
	Admin string
}

// level is a flag type of the command's own.
type level string

func (l *level) String() string { return string(*l) }
func (l *level) Type() string   { return "level" }
func (l *level) Set(text string) error {
	if text != "info" && text != "debug" && text != "2" {
		return errors.New("must be info, debug or 2")
	}
	*l = level(text)
	return nil
}

func newFlags() (*pflag.FlagSet, *options) {
	o := &options{Level: "info"}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.StringVar(&o.Address, "grpc-address", ":9090", "`address` to serve gRPC on")
	flags.IntVar(&o.MaxPods, "max-pods", 5000, "pods a request may have")
	flags.Uint16Var(&o.Port, "port", 80, "a port")
	flags.Float64Var(&o.Rate, "rate", 0.5, "requests a second, \"0\" | none")
	flags.DurationVar(&o.Timeout, "store-timeout", 5*time.Minute, "how long to wait for the store, which is longer than anybody would want to wait for a store")
	flags.BoolVar(&o.Explain, "explain", false, "explain always")
	flags.StringSliceVar(&o.Origins, "cors-origins", []string{"a", "b,c"}, "origins that may call")
	flags.StringArrayVar(&o.Headers, "headers", nil, "headers")
	flags.IntSliceVar(&o.Weights, "weights", []int{1, 2}, "weights")
	flags.DurationSliceVar(&o.Backoffs, "backoffs", []time.Duration{time.Second, 90 * time.Minute}, "backoffs")
	flags.Var(&o.Level, "log-level", "least level that is logged")
	flags.Bool("help", false, "as cobra adds it")
	flags.String("secret-door", "", "not shown")
	_ = flags.MarkHidden("secret-door")
	config.AddFlag(flags)
	return flags, o
}

// apply parses args, writes file (unless it is empty) and applies it and environ.
// Paths in errors are shortened to setpoint.yaml.
func apply(t *testing.T, args []string, environ []string, file string) (*options, []string) {
	t.Helper()
	flags, o := newFlags()
	dir := t.TempDir()
	if file != "" {
		path := filepath.Join(dir, "setpoint.yaml")
		fatal.If(t, os.WriteFile(path, []byte(file), 0o600))
		args = append(args, "--config", path)
	}
	fatal.If(t, flags.Parse(args))
	return o, lines(config.Apply(flags, environ), dir+string(filepath.Separator))
}

// lines are the lines of an error, without the text drop.
func lines(err error, drop string) []string {
	if err == nil {
		return nil
	}
	return strings.Split(strings.ReplaceAll(err.Error(), drop, ""), "\n")
}

// values renders every setting, for comparison.
func values(o *options) string { return fmt.Sprintf("%+v", *o) }
