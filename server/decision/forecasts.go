package decision

import (
	"context"
	"time"

	"github.com/setpoint-dev/setpoint/server/forecasts"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/store"
)

// pastTTL is how long a target keeps its past that adds nothing to it, as one whose workload is off, or whose metrics fail: as
// long as a value may count.
const pastTTL = 28 * 24 * time.Hour

// NewForecasts returns the past of targets with a forecast, limited by cluster like their records; nil if the engine keeps no
// parts. Close stops it.
func NewForecasts(t *Targets, engine store.Store) (*forecasts.Rings, error) {
	parts, ok := engine.(store.Parts)
	if !ok {
		return nil, nil
	}
	ttl := t.Options.HistoryTTL
	if ttl > 0 {
		ttl = max(ttl, pastTTL)
	}
	counted, err := parts.Part(store.Forecasts, ttl)
	if err != nil {
		return nil, err
	}
	records, err := t.store.(store.Parts).Part(store.Forecasts, ttl)
	if err != nil {
		return nil, err
	}
	return forecasts.New(records, counted, forecasts.Options{Shares: t.Options.Shares(), Away: &t.Watch.Away, Missed: t.missedPast}), nil
}

// foresees reports whether a decision has a forecast.
func (j *Job) foresees() bool { return j.Around.Plan != nil && j.Around.Plan.Forecast != nil }

// lookBack gives the jobs that have a forecast the past of their targets; not those that fleets answer.
func (t *Targets) lookBack(ctx context.Context, jobs ...*Job) {
	var asked []forecasts.Asked
	for _, j := range jobs {
		if !j.foresees() || j.Fleet != nil || j.done() {
			continue
		}
		of := j.Around.Plan.Forecast
		j.Around.Past = &stages.Past{Basis: of.Basis.For(j.Owner.Incarnation)}
		asked = append(asked, forecasts.Asked{Key: j.Key, Now: j.Now, Of: of, Past: j.Around.Past})
	}
	t.Forecasts.Recall(ctx, asked)
}

// closeBucket keeps the bucket that a recorded decision closed.
func (j *Job) closeBucket() {
	past := j.Around.Past
	if past == nil || !past.HasClosed || j.DryRun {
		return
	}
	j.targets.Forecasts.Add(forecasts.Closed{Key: j.Key, Bucket: past.Closed, Basis: past.Basis, Season: j.Around.Plan.Forecast.Season, Bounds: j.Bounds})
}
