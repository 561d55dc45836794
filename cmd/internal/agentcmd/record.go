package agentcmd

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/flight"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
)

// Record is the settings of the flight recorder.
type Record struct {
	File     string
	MaxBytes int64
	MaxFiles int
}

func defaultRecord() Record { return Record{MaxBytes: 100 << 20, MaxFiles: 5} }

func (s *Record) list() []config.Setting {
	return []config.Setting{
		config.String(&s.File, "record", "`file` to record all observations and decisions to, for setpoint replay; compressed if its name ends in .gz; empty disables recording"),
		config.Int64(&s.MaxBytes, "record-max-bytes", "maximum bytes of that file before it is rotated to FILE.1, FILE.2 and so on", config.Positive),
		config.Int(&s.MaxFiles, "record-max-files", "maximum number of recording files", config.Positive),
	}
}

// Open starts recording until the returned function is called. Without a file it returns no observer.
func (s *Record) Open(targets flight.Targets, metrics prometheus.Registerer, log *zap.Logger) ([]agent.Observer, func(), error) {
	if s.File == "" {
		return nil, func() {}, nil
	}
	recorder, err := flight.Open(flight.Options{
		File: s.File, MaxBytes: s.MaxBytes, MaxFiles: s.MaxFiles, Targets: targets, Registerer: metrics, Log: log,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("--record: %w", err)
	}
	return []agent.Observer{recorder}, func() {
		if err := recorder.Close(); err != nil {
			log.Error("recording not closed", zap.Error(err))
		}
	}, nil
}
