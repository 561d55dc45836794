package scenario

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/setpoint-dev/setpoint/bench/process"
	"github.com/setpoint-dev/setpoint/bench/report"
)

// Scenario is a measurement.
type Scenario struct {
	Name, Title, Note string
	play              func(*stage) ([]report.Figure, error)
}

// All are the scenarios, in the order of the report.
var All = []Scenario{engine, unaryMemory, unaryRedis, rest, streamRedis, batchRedis, latency, million, fleets, pods, start, watchers, instances, kills}

// Play runs a scenario.
func (s *Scenario) Play(ctx context.Context, settings Settings) (report.Scenario, error) {
	played := report.Scenario{Name: s.Name, Title: s.Title, Note: s.Note}
	st := &stage{Settings: settings, ctx: ctx, name: s.Name}
	defer st.end()
	began := time.Now()
	busy, stolen := process.Busy()
	own := st.cpu()
	var err error
	if played.Figures, err = s.play(st); err != nil {
		return played, fmt.Errorf("%s: %w", s.Name, err)
	}
	took := time.Since(began)
	busyNow, stolenNow := process.Busy()
	whole := took.Seconds() * float64(processors())
	played.Seconds = took.Seconds()
	played.OthersPercent = max(0, 100*((busyNow-busy)-(st.cpu()-own)).Seconds()/whole)
	played.StolenPercent = 100 * (stolenNow - stolen).Seconds() / whole
	return played, nil
}

// cpu returns the processor time of the measurement so far: of this process, of
// children it waited for, and of those that it has started.
func (s *stage) cpu() time.Duration {
	own := process.CPU(os.Getpid()) + process.CPUOfChildren()
	for _, pid := range s.pids {
		own += process.CPU(pid)
	}
	return own
}
