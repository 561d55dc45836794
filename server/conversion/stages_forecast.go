package conversion

import (
	"cmp"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/stages/forecast"
	"github.com/setpoint-dev/setpoint/stages/schedule"
)

// Defaults of a forecast.
const (
	defaultLead     = 5 * time.Minute
	defaultQuantile = 90
	defaultMost     = 80
)

// forecast reads a forecast; nil: there is none, or a violation was added.
func (r *stagesReader) forecast(in *setpointv1.Forecast, p *stages.Plan) *stages.Forecast {
	if in == nil {
		return nil
	}
	quantile := int(in.GetQuantilePercent())
	switch {
	case quantile == 0:
		quantile = defaultQuantile
	case quantile > 0 && quantile < 50: // validation.Structure tells of others
		r.refuse("stages.forecast.quantilePercent", "Invalid value: %d: must be between 50 and 100, or 0 for %d", quantile, defaultQuantile)
	}
	const field = "stages.forecast.timeZone"
	if !r.asksForZone(in.GetTimeZone(), field) {
		return nil
	}
	zone, err := schedule.Zone(in.GetTimeZone())
	if err != nil {
		r.unknownZones++
		r.refuse(field, "Invalid value: %q: %v", clip(in.GetTimeZone()), err)
		return nil
	}
	out := &stages.Forecast{
		Settings: forecast.Settings{Quantile: quantile, Lead: durationOr(in.GetLead(), defaultLead), Zone: zone},
		Basis:    stages.BasisOf(&r.in.Spec, p.Combine), Floor: in.GetMode() == "FLOOR", MostPercent: cmp.Or(in.GetMaxPercentOfMax(), defaultMost),
	}
	if in.GetSeason() == forecast.Weekly.String() {
		out.Season = forecast.Weekly
	}
	return out
}
