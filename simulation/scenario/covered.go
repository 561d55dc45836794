package scenario

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/simulation"
)

// StandsFor is the maximum time for which a sample of a recorded load counts: until the next
// one, and beyond this time nothing was recorded.
const StandsFor = 5 * time.Minute

// Recorded describes the quality of a scenario's recorded load.
type Recorded struct {
	// Files of recorded load, as the scenario names them. Empty: no part was recorded.
	Files []string
	// NoNumbers is how many of their samples had no value and were ignored.
	NoNumbers int
	// Covered is the time of the scenario for which all files have samples, also those of members of a fleet.
	Covered time.Duration
	// Gaps are the stretches that are not covered, in order. The load is interpolated linearly
	// there.
	Gaps []Gap
}

// Gap is a stretch of time, since the start.
type Gap struct{ From, To time.Duration }

// ReadRecorded is Read, and reports the coverage if the load was recorded.
func ReadRecorded(ctx context.Context, name string, data []byte, seed *uint64, open Open) (*simulation.Scenario, *Recorded, error) {
	r := newReader(ctx, seed, open)
	if err := r.read(name, data); err != nil {
		return nil, nil, err
	}
	return &r.scenario, r.covered(), nil
}

// covered computes the stretches for which a recorded part has no samples.
func (r *reader) covered() *Recorded {
	whole := r.scenario.Duration
	out := &Recorded{Covered: whole}
	var gaps []Gap
	for _, p := range slices.Concat(r.parts, r.own) {
		if p.file == "" {
			continue
		}
		out.Files = append(out.Files, p.file)
		out.NoNumbers += p.noNumbers
		shift := time.Duration(0)
		if !p.begin.IsZero() {
			shift = p.begin.Sub(r.scenario.Start)
		}
		gaps = append(gaps, gapsOf(p.samples, shift, whole)...)
	}
	slices.SortFunc(gaps, func(a, b Gap) int { return cmp.Compare(a.From, b.From) })
	for _, g := range gaps {
		if n := len(out.Gaps); n > 0 && g.From <= out.Gaps[n-1].To {
			out.Gaps[n-1].To = max(out.Gaps[n-1].To, g.To)
			continue
		}
		out.Gaps = append(out.Gaps, g)
	}
	for _, g := range out.Gaps {
		out.Covered -= g.To - g.From
	}
	return out
}

// gapsOf returns the stretches of a scenario that the samples do not cover.
func gapsOf(samples []time.Duration, shift, whole time.Duration) []Gap {
	var out []Gap
	add := func(from, to time.Duration) {
		if from, to = max(from, 0), min(to, whole); from < to {
			out = append(out, Gap{from, to})
		}
	}
	add(0, samples[0]+shift)
	for i, at := range samples {
		next := samples[i] + shift // the last one covers no time
		if i+1 < len(samples) {
			next = samples[i+1] + shift
		}
		add(at+shift+StandsFor, next)
	}
	add(samples[len(samples)-1]+shift, whole)
	return out
}

// Series is a recorded time series, such as a count of replicas.
type Series struct {
	begin   time.Time
	samples []time.Duration
	trace   *simulation.Trace
}

// ReadSeries reads a series in the form of a recorded load, CSV or a response of Prometheus,
// whose times are instants. Those without a zone are in the given zone.
func ReadSeries(ctx context.Context, data []byte, zone *time.Location) (*Series, error) {
	got, err := readAny(ctx, data, zone)
	if err != nil {
		return nil, err
	}
	if got.begin.IsZero() {
		return nil, errors.New("its times must be instants, such as 2026-01-31T03:00:00Z or seconds since 1970")
	}
	return &Series{got.begin, got.samples, got.trace}, nil
}

func readAny(ctx context.Context, data []byte, zone *time.Location) (recorded, error) {
	if first := bytes.TrimLeft(data, "\xef\xbb\xbf \t\r\n"); len(first) > 0 && first[0] == '{' {
		return readPrometheus(ctx, data, zone)
	}
	return readCSV(ctx, data, zone)
}

// AsCSV returns a recorded load or series, also of a recording, in its shortest form: lines of seconds and value, several
// series added up, what is no number left out.
func AsCSV(ctx context.Context, data []byte, zone *time.Location) (string, error) {
	read := readAny
	if first := bytes.TrimLeft(data, " \t\r\n"); bytes.HasPrefix(first, []byte(`{"name":`)) || bytes.HasPrefix(first, []byte(`{"calls":`)) {
		read = func(ctx context.Context, data []byte, _ *time.Location) (recorded, error) {
			return readRecording(ctx, data, "")
		}
	}
	got, err := read(ctx, data, zone)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	from := time.Duration(0)
	if !got.begin.IsZero() {
		from = time.Duration(got.begin.UnixMilli()) * time.Millisecond
	}
	for _, p := range got.trace.Points() {
		out.WriteString(strconv.FormatFloat((from+p.At).Seconds(), 'f', -1, 64) + "," + strconv.FormatFloat(p.Value, 'f', -1, 64) + "\n")
	}
	return out.String(), nil
}

// At returns the newest value at an instant. ok is false if no sample covers it.
func (s *Series) At(at time.Time) (value float64, ok bool) {
	offset := at.Sub(s.begin)
	i, found := slices.BinarySearch(s.samples, offset)
	if !found {
		i--
	}
	if i < 0 || offset-s.samples[i] > StandsFor {
		return 0, false
	}
	return s.trace.At(s.samples[i]), true
}
