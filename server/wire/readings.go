package wire

import (
	"bytes"
	"time"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/bounded"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// readings are the values of a request's metrics.
type readings struct {
	plan *plan
	// byMetric are the readings of each metric, with values in reused slices.
	byMetric []recommender.Readings
	// metric and version are those of the previous custom metric, if that was a pod's;
	// last is its match.
	metric, version place
	last            *match
	// matched is how many matches were used.
	matched int
}

// match lists the spec's metrics that a reading belongs to.
type match struct {
	// refused reports whether the slow path found an error in it.
	refused bool
	metrics []int
	bytes   int // of its key
}

func (v *readings) drop() {
	for i := range v.byMetric {
		drop(&v.byMetric[i].Values)
		v.byMetric[i].Error, v.byMetric[i].SelectorError, v.byMetric[i].Timestamp = "", "", time.Time{}
	}
	*v = readings{byMetric: v.byMetric[:0]}
}

// join reads the readings and assigns them to the metrics of the spec.
func (r *Request) join() bool {
	known := r.readings.plan.input.Readings
	for i := range known {
		out := grow(&r.readings.byMetric)
		out.Error, out.SelectorError, out.Timestamp = known[i].Error, known[i].SelectorError, time.Time{}
	}
	for _, p := range r.found.custom {
		if !r.customMetric(p.from, p.to) {
			return false
		}
	}
	for _, p := range r.found.external {
		if !r.externalMetric(p.from, p.to) {
			return false
		}
	}
	r.Input.Readings = r.readings.byMetric
	return true
}

// Tags of CustomMetric and ExternalMetric.
const (
	customMetric    = 1<<3 | isBytes
	customObject    = 2<<3 | isBytes
	customTimestamp = 3<<3 | isBytes
	customValue     = 4<<3 | isBytes
	customWindow    = 5<<3 | isFixed64

	externalMetric    = 1<<3 | isBytes
	externalLabels    = 2<<3 | isBytes
	externalTimestamp = 3<<3 | isBytes
	externalValue     = 4<<3 | isBytes
)

// customMetric reads a value of a pod or an object.
func (r *Request) customMetric(from, to int) bool {
	var metric, kind, name, version place
	var milli int64
	var taken time.Time
	var seen fields
	for i := from; i < to; {
		tag, at, end := next(r.b, i, to)
		if end == 0 {
			return false
		}
		ok := false
		switch tag {
		case customMetric:
			metric, ok = place{at, end}, seen.first(1)
		case customObject:
			kind, name, version, ok = reference(r.b, at, end)
			ok = ok && seen.first(2)
		case customTimestamp:
			taken, ok = r.instant(at, end)
			ok = ok && seen.first(3)
		case customValue:
			milli, ok = r.milli(at, end)
			ok = ok && seen.first(4)
		case customWindow:
			_, ok = r.window(at)
			ok = ok && seen.first(5)
		}
		if !ok {
			return false
		}
		i = end
	}
	if !seen.has(1) || !seen.has(2) || !seen.has(4) {
		return false
	}
	pod, ok := r.podAgain(&r.valued, name.from, name.to, name.to-name.from)
	return ok && r.put(r.customMatch(metric, kind, name, version), taken, recommender.Value{Pod: pod, Milli: milli})
}

// customMatch returns the match of a custom metric. A pod's does not depend on which
// pod it is, unless there are Object metrics of pods.
func (r *Request) customMatch(metric, kind, name, version place) *match {
	v := &r.readings
	ofPod := string(r.b[kind.from:kind.to]) == "Pod" && !v.plan.hasPodObject
	if ofPod && v.last != nil && r.same(metric, v.metric) && r.same(version, v.version) {
		return v.last
	}
	if metric.to-metric.from+kind.to-kind.from+name.to-name.from+version.to-version.from > maxRemembered {
		return nil
	}
	object := r.b[name.from:name.to]
	if ofPod {
		object = anyName
	}
	b := r.scratch.body[:0]
	b = appendField(b, 1, r.b[metric.from:metric.to])
	b = appendReference(b, 2, r.b[kind.from:kind.to], object, r.b[version.from:version.to])
	b = appendField(b, 4, anyValue)
	r.scratch.body = b
	m := r.matchOf(8, b, string(r.b[kind.from:kind.to]) == "Namespace")
	if ofPod {
		v.metric, v.version, v.last = metric, version, m
	} else {
		v.last = nil
	}
	return m
}

// anyValue is a placeholder for the value of a metric.
var anyValue = []byte("1")

func (r *Request) same(a, b place) bool {
	return bytes.Equal(r.b[a.from:a.to], r.b[b.from:b.to])
}

// externalMetric reads a series.
func (r *Request) externalMetric(from, to int) bool {
	b := r.scratch.body[:0]
	var milli int64
	var taken time.Time
	var seen fields
	for i := from; i < to; {
		tag, at, end := next(r.b, i, to)
		if end == 0 {
			return false
		}
		ok := false
		switch tag {
		case externalMetric:
			ok = seen.first(1)
		case externalLabels:
			ok = true
		case externalTimestamp:
			taken, ok = r.instant(at, end)
			ok = ok && seen.first(3)
		case externalValue:
			milli, ok = r.milli(at, end)
			ok = ok && seen.first(4)
		}
		if !ok || len(b)+end-i > maxRemembered {
			return false
		}
		if tag == externalMetric || tag == externalLabels {
			b = append(b, r.b[i:end]...)
		}
		i = end
	}
	b = appendField(b, 4, anyValue)
	r.scratch.body = b
	return seen.has(1) && seen.has(4) && r.put(r.matchOf(9, b, false), taken, recommender.Value{Milli: milli})
}

// put adds a value with its timestamp to the metrics that it belongs to.
func (r *Request) put(m *match, taken time.Time, value recommender.Value) bool {
	if m == nil || m.refused {
		return false
	}
	r.noted = r.noted || len(m.metrics) == 0
	if n := len(m.metrics) - 1; n > 0 && !r.budget.Copies(n) {
		return false
	}
	for _, i := range m.metrics {
		r.readings.byMetric[i].Add(taken, value)
	}
	return true
}

// matchOf returns the match of a reading, which is encoded as a field of a request with
// only what determines the match. For a namespace's metric it depends on the target's
// own namespace.
func (r *Request) matchOf(field int, reading []byte, ofNamespace bool) *match {
	p := r.readings.plan
	key := appendNumber(r.scratch.key[:0], p.id)
	at := len(key)
	if ofNamespace {
		key = appendTarget(key, r.Name.Namespace)
	}
	key = appendField(key, field, reading)
	r.scratch.key = key
	d := r.decoder
	if m, known := bounded.GetBytes(d.matches, key); known {
		return m
	}
	m := r.newMatch(key[at:], ofNamespace)
	// One request with very many different readings must not displace the matches of
	// others.
	if r.readings.matched++; m != nil && r.readings.matched <= maxMatched {
		m.bytes = len(key)
		d.matches.Put(string(key), m)
	}
	return m
}

// maxMatched is how many matches of one request are cached. simpleSeries is the length, in
// bytes, up to which a series without a selector cannot break a rule.
const (
	maxMatched   = 1000
	simpleSeries = 1 << 10
)

// newMatch determines a match on the slow path, nil if that exceeds the budget. The
// reading is a field of a request.
func (r *Request) newMatch(field []byte, ofNamespace bool) *match {
	request := &setpointv1.RecommendRequest{}
	if err := proto.Unmarshal(field, request); err != nil {
		return &match{refused: true}
	}
	namespace := anyNamespace
	if ofNamespace {
		namespace = r.Name.Namespace
	}
	m, matcher := &match{}, r.readings.plan.matcher
	selectors := conversion.NewSelectors(r.budget)
	var err error
	for _, v := range request.GetCustomMetrics() {
		m.refused = m.refused || len(validation.Structure(v)) > 0 || len(conversion.Unidentified(v.GetMetric(), v.GetDescribedObject())) > 0
		m.metrics, err = matcher.Custom(m.metrics, v, namespace, selectors)
		m.refused = m.refused || err != nil
	}
	for _, v := range request.GetExternalMetrics() {
		simple := len(field) <= simpleSeries && v.GetMetric() != nil && v.GetMetric().GetSelector() == nil
		m.refused = m.refused || !simple && len(validation.Structure(v)) > 0 || len(conversion.Unidentified(v.GetMetric(), nil)) > 0
		m.metrics, err = matcher.External(m.metrics, v, selectors)
		m.refused = m.refused || err != nil
	}
	if selectors.Spent() {
		return nil
	}
	return m
}
