package main

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent/flight"
	"github.com/setpoint-dev/setpoint/cmd/internal/agentcmd"
)

// recordSettings say what the flight recorder writes.
type recordSettings struct {
	File     string
	MaxBytes int64
	MaxFiles int
}

func defaultRecordSettings() recordSettings { return recordSettings{MaxBytes: 100 << 20, MaxFiles: 5} }

func (s *recordSettings) bind(flags *pflag.FlagSet) {
	flags.StringVar(&s.File, "record", s.File, "`file` to record all observations and decisions to, for setpoint replay; compressed if its name ends in .gz; empty disables recording")
	flags.Int64Var(&s.MaxBytes, "record-max-bytes", s.MaxBytes, "maximum bytes of that file before it is rotated to FILE.1, FILE.2 and so on")
	flags.IntVar(&s.MaxFiles, "record-max-files", s.MaxFiles, "maximum number of recording files")
}

func (s *recordSettings) validate(refuse agentcmd.Refuse) {
	agentcmd.RefuseUnlessAbove(refuse, "record-max-bytes", s.MaxBytes)
	agentcmd.RefuseUnlessAbove(refuse, "record-max-files", s.MaxFiles)
}

// open begins to record, nil if that is not wanted, until the function that it returns
// is called.
func (s *recordSettings) open(targets flight.Targets, metrics prometheus.Registerer, log *zap.Logger) (agent.Observer, func(), error) {
	if s.File == "" {
		return nil, func() {}, nil
	}
	recorder, err := flight.Open(flight.Options{
		File: s.File, MaxBytes: s.MaxBytes, MaxFiles: s.MaxFiles, Targets: targets, Registerer: metrics, Log: log,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("--record: %w", err)
	}
	return recorder, func() {
		if err := recorder.Close(); err != nil {
			log.Error("recording not closed", zap.Error(err))
		}
	}, nil
}
