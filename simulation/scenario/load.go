package scenario

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/simulation"
)

// part is one part of a load. It is built when its time span is known.
type part struct {
	at    document.Value
	make  func(simulation.Span) (*simulation.Trace, error)
	scale float64
	// end of a part that has one, 0: unlimited.
	end time.Duration
	// begin is the instant of the offset 0 of a recorded part, zero: the start.
	begin time.Time
	// file of a recorded part, the offsets of its samples, and how many had no value.
	file      string
	samples   []time.Duration
	noNumbers int
}

// part reads a part.
func (r *reader) part(i int, v document.Value) {
	if i >= MaxParts {
		if i == MaxParts {
			v.Refuse("there are more than %d parts", MaxParts)
		}
		return
	}
	p := &part{at: v, scale: 1}
	kinds, metric := 0, ""
	shape := func(key string, read func(document.Value)) document.Field {
		return document.Optional(key, func(v document.Value) { kinds++; p.at = v; read(v) })
	}
	right := v.Map(
		document.Optional("scale", number(&p.scale, 1e6)),
		shape("constant", p.constant), shape("points", p.points), shape("step", p.step), shape("ramp", p.ramp),
		shape("daily", p.daily), shape("spike", p.spike), shape("flashCrowd", p.flashCrowd),
		shape("sawtooth", p.sawtooth), shape("onOff", p.onOff),
		shape("csv", func(v document.Value) { r.recorded(p, v, &metric, readCSV) }),
		shape("prometheus", func(v document.Value) { r.recorded(p, v, &metric, readPrometheus) }),
		shape("recording", func(v document.Value) {
			r.recorded(p, v, &metric, func(ctx context.Context, data []byte, _ *time.Location) (recorded, error) {
				return readRecording(ctx, data, metric)
			})
		}),
	)
	switch {
	case right && kinds != 1:
		v.Refuse("must have one of constant, points, step, ramp, daily, spike, flashCrowd, sawtooth, onOff, csv, prometheus and recording")
	case p.make != nil:
		r.parts = append(r.parts, p)
	}
}

func (p *part) constant(v document.Value) {
	value := -1.0
	if load(&value)(v); value >= 0 {
		p.make = func(simulation.Span) (*simulation.Trace, error) { return simulation.Constant(value) }
	}
}

func (p *part) points(v document.Value) {
	var points []simulation.Point
	v.List(func(_ int, v document.Value) {
		var point simulation.Point
		v.Map(document.Required("at", duration(&point.At, simulation.MaxDuration)), document.Required("value", load(&point.Value)))
		points = append(points, point)
	})
	if len(points) > 0 {
		p.end = points[len(points)-1].At
		p.make = func(simulation.Span) (*simulation.Trace, error) { return simulation.NewTrace(points) }
	}
}

func (p *part) step(v document.Value) {
	var from, to float64
	var at time.Duration
	if v.Map(document.Optional("from", load(&from)), document.Required("to", load(&to)), document.Required("at", duration(&at, simulation.MaxDuration))) {
		p.make = func(simulation.Span) (*simulation.Trace, error) { return simulation.Jump(from, to, at) }
	}
}

func (p *part) ramp(v document.Value) {
	var from, to float64
	var at, length time.Duration
	if v.Map(document.Optional("from", load(&from)), document.Required("to", load(&to)), document.Optional("at", duration(&at, simulation.MaxDuration)),
		document.Required("for", duration(&length, simulation.MaxDuration))) {
		p.make = func(simulation.Span) (*simulation.Trace, error) { return simulation.Ramp(from, to, at, length) }
	}
}

func (p *part) daily(v document.Value) {
	low, high := 0.0, math.NaN() // what can't be read is not below
	weekend := 1.0
	peak := 14 * time.Hour
	right := v.Map(
		document.Required("low", load(&low)), document.Required("high", load(&high)), document.Optional("weekend", number(&weekend, 1)),
		document.Optional("peak", func(v document.Value) {
			text, _ := v.Raw()
			t, err := time.Parse("15:04", text)
			if err != nil {
				v.Refuse(`must be a time of day such as "14:30"`)
				return
			}
			peak = time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
		}),
	)
	switch {
	case right && high < low:
		v.Refuse("high is below low")
	case right && high >= low:
		p.make = func(span simulation.Span) (*simulation.Trace, error) {
			return simulation.Daily(low, high, peak, weekend, span)
		}
	}
}

func (p *part) spike(v document.Value) {
	var height float64
	var at, length time.Duration
	if v.Map(document.Required("height", load(&height)), document.Required("at", duration(&at, simulation.MaxDuration)), document.Required("for", duration(&length, simulation.MaxDuration))) {
		p.make = func(simulation.Span) (*simulation.Trace, error) { return simulation.Spike(height, at, length) }
	}
}

func (p *part) flashCrowd(v document.Value) {
	var height float64
	var at time.Duration
	rise, halfLife := time.Minute, 10*time.Minute
	if v.Map(document.Required("height", load(&height)), document.Required("at", duration(&at, simulation.MaxDuration)),
		document.Optional("rise", duration(&rise, simulation.MaxDuration)), document.Optional("halfLife", duration(&halfLife, 24*time.Hour))) {
		p.make = func(simulation.Span) (*simulation.Trace, error) {
			return simulation.FlashCrowd(height, at, rise, halfLife)
		}
	}
}

func (p *part) sawtooth(v document.Value) {
	var low, high float64
	var period time.Duration
	if v.Map(document.Required("low", load(&low)), document.Required("high", load(&high)), document.Required("period", duration(&period, simulation.MaxDuration))) {
		p.make = func(span simulation.Span) (*simulation.Trace, error) {
			return simulation.Sawtooth(low, high, period, span)
		}
	}
}

func (p *part) onOff(v document.Value) {
	var low, high float64
	var on, off time.Duration
	if v.Map(document.Optional("low", load(&low)), document.Required("high", load(&high)),
		document.Required("on", duration(&on, simulation.MaxDuration)), document.Required("off", duration(&off, simulation.MaxDuration))) {
		p.make = func(span simulation.Span) (*simulation.Trace, error) {
			return simulation.OnOff(low, high, on, off, span)
		}
	}
}

// recorded reads a file of recorded load. metric is what the file has the readings of.
func (r *reader) recorded(p *part, v document.Value, metric *string, read func(context.Context, []byte, *time.Location) (recorded, error)) {
	name := ""
	if !v.Map(
		document.Required("file", func(v document.Value) { name, _ = v.Text() }),
		document.Optional("metric", func(v document.Value) { *metric, _ = v.Text() }),
	) || name == "" {
		return
	}
	if err := r.ctx.Err(); err != nil {
		v.Refuse("%v", err)
		return
	}
	data, err := r.open(name)
	if err != nil {
		v.Refuse("%v", err)
		return
	}
	if r.fileBytes += len(data); r.fileBytes > MaxLoadBytes {
		v.Refuse("%s: the files of recorded load, up to here, have more than %d bytes together, each counted as often as it is named", name, MaxLoadBytes)
		return
	}
	got, err := read(r.ctx, data, r.zone)
	if err != nil {
		v.Refuse("%s: %v", name, err)
		return
	}
	if r.filePoints += len(got.trace.Points()); r.filePoints > simulation.MaxPoints {
		v.Refuse("%s: the files of recorded load, up to here, have more than %d points together", name, simulation.MaxPoints)
		return
	}
	r.readings = append(r.readings, cmp.Or(*metric, got.metric))
	p.begin, p.end = got.begin, got.trace.End()
	p.file, p.samples, p.noNumbers = name, got.samples, got.noNumbers
	p.make = func(simulation.Span) (*simulation.Trace, error) { return got.trace, nil }
}

// makeLoad adds up the parts, once the start and the duration of the simulation are known.
func (r *reader) makeLoad(parts, noise document.Value) {
	s := &r.scenario
	all := slices.Concat(r.parts, r.own)
	// By default, the simulation starts at the earliest recorded instant.
	if !r.started {
		earliest := time.Time{}
		for _, p := range all {
			if !p.begin.IsZero() && (earliest.IsZero() || p.begin.Before(earliest)) {
				earliest = p.begin
			}
		}
		if !earliest.IsZero() {
			s.Start = earliest.In(r.zone)
		}
	}
	if s.Duration == 0 {
		for _, p := range all {
			end := p.end
			if !p.begin.IsZero() {
				end += p.begin.Sub(s.Start)
			}
			if p.end > 0 {
				s.Duration = max(s.Duration, end)
			}
		}
		if s.Duration <= 0 {
			s.Duration = defaultDuration
		}
		if s.Duration > simulation.MaxDuration {
			parts.Refuse("lasts %s, longer than %s; set a duration", s.Duration, simulation.MaxDuration)
			return
		}
	}
	sum := r.trace(parts, r.parts)
	if sum == nil {
		return
	}
	if s.Load = sum; r.noise.variation > 0 {
		var err error
		if s.Load, err = sum.Noise(s.Seed, r.noise.variation, r.noise.every, s.Duration); err != nil {
			noise.Refuse("%v", err)
		}
	}
}

// trace is the sum of parts; nil: there is none.
func (r *reader) trace(at document.Value, parts []*part) *simulation.Trace {
	s := &r.scenario
	var traces []*simulation.Trace
	for _, p := range parts {
		if err := r.ctx.Err(); err != nil {
			p.at.Refuse("%v", err)
			return nil
		}
		trace, err := p.make(simulation.Span{Start: s.Start, Duration: s.Duration})
		if err == nil && !p.begin.IsZero() {
			trace, err = shifted(trace, p.begin.Sub(s.Start))
		}
		if err == nil && p.scale != 1 {
			trace, err = trace.Scale(p.scale)
		}
		if err != nil {
			p.at.Refuse("%v", err)
			continue
		}
		// All traces are in memory at once: fifty periodic ones of one line each would take
		// gigabytes.
		if r.points += len(trace.Points()); r.points > simulation.MaxPoints {
			p.at.Refuse("the parts, up to this one, have more than %d points together", simulation.MaxPoints)
			return nil
		}
		traces = append(traces, trace)
	}
	if len(traces) == 0 {
		return nil
	}
	sum, err := simulation.Sum(traces...)
	if err != nil {
		at.Refuse("%v", err)
		return nil
	}
	return sum
}

// shifted is a trace that starts later.
func shifted(t *simulation.Trace, by time.Duration) (*simulation.Trace, error) {
	if by == 0 {
		return t, nil
	}
	points := append([]simulation.Point(nil), t.Points()...)
	for i := range points {
		points[i].At += by
	}
	return simulation.NewTrace(points)
}
