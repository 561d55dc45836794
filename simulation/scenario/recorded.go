package scenario

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/simulation"
)

// recorded is a measured load.
type recorded struct {
	trace *simulation.Trace
	// begin is the instant of the first point, zero: times are not instants.
	begin time.Time
	// samples are the offsets of all samples, in order; noNumbers counts those without a
	// value.
	samples   []time.Duration
	noNumbers int
	// metric is what the values are the readings of; empty: they are the load.
	metric string
}

// asked is the number of samples between checks of the context.
const asked = 1 << 12

// maxSeries limits the series of a Prometheus response: they are added point by point.
const maxSeries = 50

// readCSV reads lines of time and value; the first one may be a heading, which may have the time second.
// Columns are separated by commas, semicolons or tabs. Times are RFC 3339, or a date and a time of day in the zone; or
// seconds: since the Unix epoch if the first is beyond a year's, else since the start. A value
// that is empty or NaN is missing.
func readCSV(ctx context.Context, data []byte, zone *time.Location) (recorded, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if first := bytes.TrimSpace(data[:min(len(data), 64)]); len(first) > 0 && first[0] == '{' {
		return recorded{}, errors.New("is JSON, not CSV; a response of Prometheus goes to prometheus: {file: …}")
	}
	source := &record{rest: data, separator: separator(data)}
	lines := csv.NewReader(source)
	lines.FieldsPerRecord, lines.TrimLeadingSpace, lines.ReuseRecord, lines.Comma = -1, true, true, rune(source.separator)
	var s series
	last, timeAt := math.Inf(-1), 0
	for n := 1; ; n++ {
		fields, err := lines.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, errColumns) {
			return recorded{}, fmt.Errorf("line %d: %w", 1+bytes.Count(data[:lines.InputOffset()], []byte("\n")), err)
		}
		if err != nil {
			return recorded{}, err
		}
		source.columns = 0
		line, _ := lines.FieldPos(0)
		if len(fields) != 2 {
			return recorded{}, fmt.Errorf("line %d: has %d columns, must have two: time and value", line, len(fields))
		}
		seconds, err := instant(fields[timeAt], zone, last)
		value, badValue := sampleOf(strings.TrimSpace(fields[1-timeAt]))
		if n == 1 && err != nil && badValue != nil { // the heading
			if namesTime(fields[1]) && !namesTime(fields[0]) {
				timeAt = 1
			}
			continue
		}
		last = seconds
		if err == nil {
			err = badValue
		}
		if err == nil {
			err = s.add(seconds, value)
		}
		if err == nil && n%asked == 0 {
			err = ctx.Err()
		}
		if err != nil {
			return recorded{}, fmt.Errorf("line %d: %w", line, err)
		}
	}
	return s.recorded()
}

// namesTime reports whether a heading is that of the times.
func namesTime(heading string) bool {
	return slices.Contains([]string{"time", "timestamp", "datetime", "date"}, strings.ToLower(strings.TrimSpace(heading)))
}

// mostColumns limits the separators of a record: for each one the CSV reader allocates a
// string and a number, before columns can be counted.
const mostColumns = 100

var errColumns = fmt.Errorf("has more than %d columns, must have two: time and value", mostColumns)

// record is the source of a CSV reader, which gets one line at a time, and an error instead of
// a record with too many columns, on however many lines.
type record struct {
	rest      []byte
	separator byte
	columns   int // separators since the previous record
}

// Read implements io.Reader.
func (r *record) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	part := r.rest[:min(len(r.rest), len(p))]
	if end := bytes.IndexByte(part, '\n'); end >= 0 {
		part = part[:end+1]
	}
	if r.columns += bytes.Count(part, []byte{r.separator}); r.columns > mostColumns {
		return 0, errColumns
	}
	r.rest = r.rest[len(part):]
	return copy(p, part), nil
}

// separator returns the column separator of the first line.
func separator(data []byte) byte {
	first, _, _ := bytes.Cut(data, []byte("\n"))
	for _, c := range []byte{',', ';', '\t'} {
		if bytes.IndexByte(first, c) >= 0 {
			return c
		}
	}
	return ','
}

// sampleOf parses a value; NaN for a missing one.
func sampleOf(text string) (float64, error) {
	if text == "" || strings.EqualFold(text, "null") {
		return math.NaN(), nil
	}
	return float64Of(text)
}

// float64Of parses a number. The error quotes only the beginning of an invalid one.
func float64Of(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err == nil {
		return f, nil
	}
	const most = 40
	if len(text) > most {
		text = text[:most] + "…"
	}
	return 0, fmt.Errorf("%q is not a number; write it with a decimal point and without a unit", text)
}

// dates are the formats of instants without a zone.
var dates = []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04"}

// Times above this are milliseconds since the epoch; as seconds they would be after the
// year 5138.
const milliseconds = 1e11

// instant parses a time in seconds, since the epoch if it is an instant. Of a time of day that exists twice, because clocks
// are set back, it is the first one after the time before.
func instant(text string, zone *time.Location, before float64) (float64, error) {
	text = strings.TrimSpace(text)
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if seconds > milliseconds {
			seconds /= 1000
		}
		return seconds, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if zone == nil {
		zone = time.UTC
	}
	local := err != nil
	for i := 0; err != nil && i < len(dates); i++ {
		t, err = time.ParseInLocation(dates[i], text, zone)
	}
	if err != nil {
		return 0, errors.New("the time must be seconds, or an instant such as 2026-01-31T03:00:00Z or 2026-01-31 03:00:00")
	}
	if local {
		t = firstAfter(t, before)
	}
	return secondsOf(t), nil
}

func secondsOf(t time.Time) float64 { return float64(t.Unix()) + float64(t.Nanosecond())/1e9 }

// firstAfter is the first instant after another one with that time of day in its zone; if there is none, any.
func firstAfter(t time.Time, after float64) time.Time {
	const around = 24 * time.Hour // longer than any clock is set back
	_, offset := t.Zone()
	for _, near := range []time.Time{t.Add(-around), t.Add(around)} { // what it is before clocks are set is the earlier one
		_, other := near.Zone()
		if at := t.Add(time.Duration(offset-other) * time.Second); secondsOf(at) > after && at.Format(time.DateTime) == t.Format(time.DateTime) {
			return at
		}
	}
	return t
}

// series is one series under construction: seconds and values.
type series struct {
	points []simulation.Point
	first  float64
	// noNumbers counts the samples without a value.
	noNumbers int
}

// epochal is the number of seconds of a year: larger times are not seconds since a
// start.
const epochal = 366 * 24 * 3600

func (s *series) add(seconds, value float64) error {
	switch {
	case math.IsNaN(seconds) || math.Abs(seconds) > 1e10 || seconds < 0:
		return fmt.Errorf("invalid time %g", seconds)
	case len(s.points) >= simulation.MaxPoints:
		return fmt.Errorf("there are more than %d points", simulation.MaxPoints)
	case math.IsNaN(value):
		s.noNumbers++ // nothing was measured then
		return nil
	case value < 0 || value > simulation.MaxLoad:
		return fmt.Errorf("the value is %g, must be between 0 and %g", value, simulation.MaxLoad)
	case len(s.points) == 0:
		s.first = seconds
	case seconds-s.first > epochal:
		return fmt.Errorf("the times span more than %s", simulation.MaxDuration)
	}
	point := simulation.Point{At: s.offset(seconds), Value: value}
	if n := len(s.points); n > 0 {
		switch last := s.points[n-1]; {
		case point == last:
			return nil // exported twice
		case point.At < last.At:
			return fmt.Errorf("its time is %s before the previous sample's; sort the samples by time", last.At-point.At)
		}
	}
	s.points = append(s.points, point)
	return nil
}

func (s *series) recorded() (out recorded, err error) {
	if len(s.points) == 0 && s.noNumbers > 0 {
		return recorded{}, fmt.Errorf("has %d samples, none of which is a number", s.noNumbers)
	}
	out = recorded{begin: begin(s.first), samples: s.offsets(), noNumbers: s.noNumbers}
	out.trace, err = simulation.NewTrace(s.points)
	return out, err
}

// offset is that of a time, to the millisecond.
func (s *series) offset(seconds float64) time.Duration {
	return time.Duration(math.Round((seconds-base(s.first))*1000)) * time.Millisecond
}

// offsets returns those of all samples.
func (s *series) offsets() []time.Duration {
	out := make([]time.Duration, 0, len(s.points))
	for _, p := range s.points {
		out = append(out, p.At)
	}
	return out
}

// base is the time of offset 0: the first time, or the start.
func base(first float64) float64 {
	if first > epochal {
		return first
	}
	return 0
}

// begin is the instant of a first time; zero if it is invalid.
func begin(first float64) time.Time {
	if base(first) == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(math.Round(first * 1000))).UTC()
}

// extent returns the last time, in seconds as given, and the least distance of two times.
func (s *series) extent() (last float64, step time.Duration) {
	step = never
	for i := 1; i < len(s.points); i++ {
		if d := s.points[i].At - s.points[i-1].At; d > 0 {
			step = min(step, d)
		}
	}
	return base(s.first) + s.points[len(s.points)-1].At.Seconds(), step
}

const never = time.Duration(math.MaxInt64)

// shift makes offsets relative to another time, which is not after the first.
func (s *series) shift(to float64) {
	by := time.Duration(math.Round((base(s.first)-base(to))*1000)) * time.Millisecond
	for i := range s.points {
		s.points[i].At += by
	}
}

// prometheusAnswer is the response of /api/v1/query_range.
type prometheusAnswer struct {
	Status string `json:"status"`
	Error  string `json:"error"`
	Data   struct {
		ResultType string           `json:"resultType"`
		Result     prometheusResult `json:"result"`
	} `json:"data"`
}

// prometheusResult are the series of a response, parsed sample by sample: generic JSON
// values would take forty times their bytes.
type prometheusResult struct {
	ctx context.Context
	// count is the number of series, all those with numbers.
	count             int
	all               []series
	noNumbers, points int
	err               error
}

// UnmarshalJSON parses the list of series, whose syntax is valid. Other problems are stored
// in err, because an error about the result's type takes precedence.
func (r *prometheusResult) UnmarshalJSON(data []byte) error {
	*r = prometheusResult{ctx: r.ctx}
	if data[0] != '[' {
		return nil // null has none
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	_, r.err = decoder.Token()
	for r.err == nil && decoder.More() {
		if r.count++; r.count <= maxSeries {
			r.err = r.series(decoder)
			continue
		}
		r.err = fmt.Errorf("has more than %d series, must have 1 to %d", maxSeries, maxSeries)
	}
	return nil
}

// series parses the next one.
func (r *prometheusResult) series(decoder *json.Decoder) error {
	result := struct {
		Values prometheusValues `json:"values"`
	}{prometheusValues{ctx: r.ctx, most: simulation.MaxPoints - r.points}}
	err := decoder.Decode(&result)
	s := &result.Values.series
	switch {
	case err == nil && result.Values.err != nil:
		err = result.Values.err
	case err == nil && len(s.points)+s.noNumbers == 0:
		err = errors.New("has no values")
	}
	if err != nil {
		return fmt.Errorf("series %d: %w", r.count, err)
	}
	r.points += len(s.points)
	if r.noNumbers += s.noNumbers; len(s.points) > 0 {
		r.all = append(r.all, *s)
	}
	return nil
}

// prometheusValues are the samples of one series: [[1767571200, "1.5"], …].
type prometheusValues struct {
	series

	ctx  context.Context
	most int
	err  error
}

// UnmarshalJSON parses the list of samples, whose syntax is valid.
func (v *prometheusValues) UnmarshalJSON(data []byte) error {
	v.series, v.err = series{}, nil
	if data[0] != '[' {
		v.err = errors.New("values: must be a list")
		return nil
	}
	for n := 1; v.err == nil; n++ {
		// To the sample's bracket, or to the one that ends the list.
		data = bytes.TrimLeft(data[1:], ", \t\r\n")
		if data[0] == ']' {
			return nil
		}
		var seconds, value float64
		if seconds, value, data, v.err = sample(data); v.err != nil {
			break
		}
		switch v.err = v.add(seconds, value); {
		case v.err == nil && len(v.points) > v.most:
			v.err = fmt.Errorf("there are more than %d points in total", simulation.MaxPoints)
		case v.err == nil && n%asked == 0:
			v.err = v.ctx.Err()
		}
	}
	return nil
}

// sample parses [seconds, "value"] at the beginning of JSON, and returns the rest from its closing
// bracket on.
func sample(data []byte) (seconds, value float64, rest []byte, err error) {
	end := bytes.IndexByte(data, ']')
	at, text, pair := bytes.Cut(data[:max(end, 1)], []byte(","))
	at, text = bytes.TrimSpace(bytes.TrimPrefix(at, []byte("["))), bytes.TrimSpace(text)
	if data[0] != '[' || !pair || len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' {
		return 0, 0, nil, errors.New(`a sample must be a time and a value in quotes: [1767571200, "1.5"]`)
	}
	if seconds, err = float64Of(string(at)); err != nil {
		return 0, 0, nil, err
	}
	value, err = float64Of(string(text[1 : len(text)-1]))
	return seconds, value, data[end:], err
}

// readPrometheus parses the response of a range query. Several series are added up.
func readPrometheus(ctx context.Context, data []byte, _ *time.Location) (recorded, error) {
	answer := prometheusAnswer{}
	answer.Data.Result.ctx = ctx
	if err := json.Unmarshal(data, &answer); err != nil {
		return recorded{}, fmt.Errorf("is not a response of Prometheus: %w", err)
	}
	switch result := &answer.Data.Result; {
	case answer.Status != "success":
		return recorded{}, fmt.Errorf("the status of the response is %q: %s", answer.Status, answer.Error)
	case answer.Data.ResultType != "matrix":
		return recorded{}, fmt.Errorf("the result is a %q, must be a matrix: query /api/v1/query_range", answer.Data.ResultType)
	case result.err != nil:
		return recorded{}, result.err
	case result.count == 0:
		return recorded{}, fmt.Errorf("has 0 series, must have 1 to %d", maxSeries)
	case len(result.all) == 0:
		return recorded{}, fmt.Errorf("has %d samples, none of which is a number", result.noNumbers)
	case len(result.all) == 1:
		result.all[0].noNumbers = result.noNumbers
		return result.all[0].recorded()
	default:
		out, err := sumOfSeries(result.all)
		out.noNumbers = result.noNumbers
		return out, err
	}
}

// sumOfSeries adds up series, each of which counts from its first sample to one step after
// its last one: pods come and go.
func sumOfSeries(all []series) (recorded, error) {
	first, last, step := math.Inf(1), math.Inf(-1), never
	for i := range all {
		s := &all[i]
		end, least := s.extent()
		first, last, step = min(first, s.first), max(last, end), min(step, least)
	}
	if last-first > epochal {
		return recorded{}, fmt.Errorf("the times span more than %s", simulation.MaxDuration)
	}
	if step == never { // one sample per series
		step = simulation.DefaultPeriod
	}
	var traces []*simulation.Trace
	var samples []time.Duration
	for i := range all {
		s := &all[i]
		end, _ := s.extent()
		s.shift(first)
		samples = append(samples, s.offsets()...)
		if s.first > first {
			s.points = slices.Insert(s.points, 0, simulation.Point{At: s.points[0].At})
		}
		if end < last {
			gone := s.points[len(s.points)-1]
			gone.At += min(step, time.Duration(math.Ceil((last-end)*1000))*time.Millisecond)
			s.points = append(s.points, gone, simulation.Point{At: gone.At})
		}
		trace, err := simulation.NewTrace(s.points)
		if err != nil {
			return recorded{}, fmt.Errorf("series %d: %w", i+1, err)
		}
		traces = append(traces, trace)
	}
	sum, err := simulation.Sum(traces...)
	slices.Sort(samples)
	return recorded{trace: sum, begin: begin(first), samples: samples}, err
}

// recordedCall is what the target was asked: sums in milli-units, by the metrics of the spec.
type recordedCall struct {
	Time    time.Time `json:"time"`
	Request struct {
		Spec struct {
			Metrics []recordedMetric `json:"metrics"`
		} `json:"spec"`
	} `json:"request"`
	Sums *struct {
		Metrics []struct {
			Ready   recordedGroup `json:"ready"`
			Unready recordedGroup `json:"unready"`
			Series  int32         `json:"series"`
			Sum     int64         `json:"sum"`
			Error   string        `json:"error"`
		} `json:"metrics"`
	} `json:"sums"`
}

type recordedGroup struct {
	Pods  int32 `json:"pods"`
	Usage int64 `json:"usage"`
}

// recordedMetric is a metric of a spec, of which one source is set.
type recordedMetric struct {
	Resource          recordedSource `json:"resource"`
	ContainerResource recordedSource `json:"containerResource"`
	Pods              recordedSource `json:"pods"`
	Object            recordedSource `json:"object"`
	External          recordedSource `json:"external"`
}

type recordedSource struct {
	Name   string `json:"name"`
	Metric struct {
		Name string `json:"name"`
	} `json:"metric"`
}

// name is what the metric is called.
func (m *recordedMetric) name() string {
	return cmp.Or(m.Resource.Name, m.ContainerResource.Name, m.Pods.Metric.Name, m.Object.Metric.Name, m.External.Metric.Name)
}

// maxCallBytes limits one call of a recording: one of the service has some kilobytes.
const maxCallBytes = 1 << 20

// readRecording reads a recording as setpoint targets export writes it, of one target: what all its pods together used of a
// metric, or the value of an Object or External one, in the metric's unit. Empty: the first spec's first metric. It reads call by
// call: parsed, they would take twenty times their bytes.
func readRecording(ctx context.Context, data []byte, metric string) (recorded, error) {
	r := recordingReader{lines: json.NewDecoder(bytes.NewReader(data)), ctx: ctx, metric: metric, names: make(map[string]bool)}
	for r.lines.More() {
		if err := r.line(); err != nil {
			return recorded{}, err
		}
	}
	if _, err := r.lines.Token(); !errors.Is(err, io.EOF) {
		return recorded{}, noRecording(err)
	}
	if metric != "" && len(r.names) > 0 && !r.names[metric] {
		return recorded{}, fmt.Errorf("has no metric %q; it has %s", metric, strings.Join(slices.Sorted(maps.Keys(r.names)), ", "))
	}
	out, err := r.sorted()
	out.metric = r.read
	return out, err
}

// sorted is what was read, in order of time: exports may be in one file in any order, and begin before the time that was asked
// for, so that two have some decisions twice.
func (r *recordingReader) sorted() (recorded, error) {
	slices.SortStableFunc(r.samples, func(a, b recordedSample) int { return cmp.Compare(a.at, b.at) })
	r.samples = slices.CompactFunc(r.samples, func(a, b recordedSample) bool { return a.at == b.at })
	var all series
	for _, s := range r.samples {
		if err := all.add(s.at, s.value); err != nil {
			return recorded{}, fmt.Errorf("at %s: %w", begin(s.at).Format(time.RFC3339Nano), err)
		}
	}
	return all.recorded()
}

func noRecording(err error) error {
	return fmt.Errorf("is no recording as setpoint targets export writes it: %w", err)
}

// recordingReader reads a recording.
type recordingReader struct {
	ctx    context.Context
	lines  *json.Decoder
	metric string
	read   string // the metric whose values are read
	target string
	names  map[string]bool // of metrics
	calls  int
	// samples are in the order of the file.
	samples []recordedSample
}

// recordedSample is a value at a time in seconds since the Unix epoch; NaN: there is none.
type recordedSample struct{ at, value float64 }

// line reads the scenario of a line.
func (r *recordingReader) line() error {
	if t, err := r.lines.Token(); err != nil || t != json.Delim('{') {
		return noRecording(cmp.Or(err, errors.New("a line is no object")))
	}
	for r.lines.More() {
		key, err := r.lines.Token()
		switch {
		case err != nil:
		case key == "name":
			err = r.name()
		case key == "calls":
			err = r.all()
		case key == "steps":
			return errors.New("has pods in place of sums, as agents write it: setpoint backtest reads it")
		default:
			var other json.RawMessage
			err = r.lines.Decode(&other)
		}
		if err != nil {
			return noRecording(err)
		}
	}
	_, err := r.lines.Token()
	return err
}

// name reads that of a scenario: the target, and since when.
func (r *recordingReader) name() error {
	text := ""
	if err := r.lines.Decode(&text); err != nil {
		return err
	}
	name, _, _ := strings.Cut(text, " ")
	r.target = cmp.Or(r.target, name)
	if name != r.target {
		return fmt.Errorf("it has several targets, %.100q and %.100q: export one", r.target, name)
	}
	return nil
}

// all reads the calls of a scenario.
func (r *recordingReader) all() error {
	if t, err := r.lines.Token(); err != nil || t != json.Delim('[') {
		return cmp.Or(err, errors.New("calls are no list"))
	}
	for r.lines.More() {
		if r.calls++; r.calls%asked == 0 && r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		var text json.RawMessage
		if err := r.lines.Decode(&text); err != nil {
			return err
		}
		if len(text) > maxCallBytes {
			return fmt.Errorf("call %d has more than %d bytes", r.calls, maxCallBytes)
		}
		var call recordedCall
		if err := json.Unmarshal(text, &call); err != nil {
			return fmt.Errorf("call %d: %w", r.calls, err)
		}
		if err := r.call(&call); err != nil {
			return fmt.Errorf("call %d: %w", r.calls, err)
		}
	}
	_, err := r.lines.Token()
	return err
}

// call takes the metric's sum.
func (r *recordingReader) call(call *recordedCall) error {
	if call.Sums == nil {
		return errors.New("has pods in place of sums, as agents write it: setpoint backtest reads it")
	}
	for i := range min(len(call.Request.Spec.Metrics), len(call.Sums.Metrics)) {
		name := call.Request.Spec.Metrics[i].name()
		if len(r.names) < maxSeries {
			r.names[name] = true
		}
		if of := cmp.Or(r.metric, r.read, name); name != of {
			continue
		}
		sums, at := &call.Sums.Metrics[i], float64(call.Time.UnixNano())/1e9
		r.read = name // of a recording whose spec changes, too
		value := float64(sums.Ready.Usage+sums.Unready.Usage+sums.Sum) / 1000
		if sums.Error != "" || sums.Ready.Pods+sums.Unready.Pods+sums.Series == 0 {
			value = math.NaN()
		}
		if r.samples = append(r.samples, recordedSample{at, value}); len(r.samples) > simulation.MaxPoints {
			return fmt.Errorf("there are more than %d points", simulation.MaxPoints)
		}
		return nil
	}
	return nil
}
