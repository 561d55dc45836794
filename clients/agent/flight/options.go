package flight

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Targets reads the service's record of a target, as package setpoint's Client does.
type Targets interface {
	// GetTarget returns the service's record of a target.
	GetTarget(ctx context.Context, name string) (*setpointv1.Target, error)
}

// Options are the settings of a recorder.
type Options struct {
	// File is appended to; compressed if its name ends in ".gz". Required.
	File string
	// MaxBytes is the size at which the file becomes File.1, File.1 becomes File.2, and
	// so on; bytes. Default: 100 MiB.
	MaxBytes int64
	// MaxFiles bounds the number of files, including File. Default: 5.
	MaxFiles int
	// MaxSteps bounds the reconciles of a scenario. Default: 40.
	MaxSteps int
	// Memory bounds the approximate memory of incomplete scenarios, bytes. Default: 32 MiB.
	Memory int
	// Queue bounds the decisions that wait to be recorded. Default: 2048.
	Queue int
	// Targets provides the history at the start of a scenario. Nil: only new objects are
	// recorded.
	Targets Targets
	// Registerer takes the metrics. Nil disables them.
	Registerer prometheus.Registerer
	// Log takes the lines. Nil: no log.
	Log *zap.Logger
}

func (o Options) withDefaults() (Options, error) {
	o.MaxBytes = cmp.Or(o.MaxBytes, 100<<20)
	o.MaxFiles = cmp.Or(o.MaxFiles, 5)
	o.MaxSteps = cmp.Or(o.MaxSteps, 40)
	o.Memory = cmp.Or(o.Memory, 32<<20)
	o.Queue = cmp.Or(o.Queue, 2048)
	o.Log = cmp.Or(o.Log, zap.NewNop())
	if o.File == "" {
		return o, errors.New("no file to record to")
	}
	if o.MaxBytes < 0 || o.MaxFiles < 0 || o.MaxSteps < 0 || o.Memory < 0 || o.Queue < 0 {
		return o, fmt.Errorf("record to %s: sizes must be above 0", o.File)
	}
	return o, nil
}
