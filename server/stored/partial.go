package stored

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	storedv1 "github.com/setpoint-dev/setpoint/api/setpoint/stored/v1"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/protofields"
	"github.com/setpoint-dev/setpoint/store"
)

// partial is a stored observation of which only the parts that a report changes are decoded:
// reports are often small and observations are not, so decoding and encoding all of it would let
// any caller with the permission to report cause a thousand times the work of its bytes.
//
// Values and series stay encoded, as unknown fields of their metric's message, which are written
// unchanged; pods and their usage, which a report replaces as a whole or not at all, are kept
// apart.
type partial struct {
	*storedv1.Observation
	// pods, usage and rest are encoded fields: pods, their usage, and everything else that is
	// not reported, including fields of newer versions.
	pods, usage, rest []byte
}

// Fields of the stored messages.
const (
	scaleTimeField protowire.Number = 2 // of Observation
	podsField      protowire.Number = 3
	podsTimeField  protowire.Number = 4
	usageField     protowire.Number = 5
	usageTimeField protowire.Number = 6
	customField    protowire.Number = 7
	externalField  protowire.Number = 8
	proposalsField protowire.Number = 9
	nameField      protowire.Number = 1 // of Pod
	timeField      protowire.Number = 1 // of CustomMetricValues and ExternalMetricSeries
	valuesField    protowire.Number = 2
)

// openObservation partly decodes a stored observation, for a report: the kinds of metrics
// that the report does not have are dropped or kept encoded. The result refers to the bytes.
func openObservation(record []byte, report *setpointv1.ReportObservationRequest, before time.Time) (*partial, error) {
	p := &partial{Observation: &storedv1.Observation{}}
	var decoded, pods, usage, rest run // decoded are the fields to decode
	var invalid error
	for f := range protofields.Of(record, &invalid) {
		field, number, value := f.Raw, f.Number, f.Value
		switch {
		case number == podsField:
			pods.add(field)
		case number == usageField:
			usage.add(field)
		case number == customField && len(report.GetCustomMetrics()) == 0, number == externalField && len(report.GetExternalMetrics()) == 0:
			if !timeOf(value).Before(before) {
				rest.add(field)
			}
		case number == customField:
			m := &storedv1.CustomMetricValues{}
			if err := openMetric(value, m, &m.Identity); err != nil {
				return nil, err
			}
			p.CustomMetrics = append(p.CustomMetrics, m)
		case number == externalField:
			m := &storedv1.ExternalMetricSeries{}
			if err := openMetric(value, m, &m.Identity); err != nil {
				return nil, err
			}
			p.ExternalMetrics = append(p.ExternalMetrics, m)
		case number > proposalsField:
			rest.add(field)
		default:
			decoded.add(field)
		}
	}
	if invalid != nil {
		return nil, invalid
	}
	p.pods, p.usage, p.rest = pods.bytes(), usage.bytes(), rest.bytes()
	return p, proto.UnmarshalOptions{Merge: true}.Unmarshal(decoded.bytes(), p.Observation)
}

// run collects fields into one slice. It makes no copy if they are already adjacent.
type run struct{ parts [][]byte }

func (r *run) add(field []byte) {
	if n := len(r.parts); n > 0 {
		last := r.parts[n-1]
		if more := last[:min(len(last)+len(field), cap(last))]; len(more) == len(last)+len(field) && &more[len(last)] == &field[0] {
			r.parts[n-1] = more
			return
		}
	}
	r.parts = append(r.parts, field)
}

// bytes are the fields; appending to them does not overwrite what follows.
func (r *run) bytes() []byte {
	if len(r.parts) == 1 {
		return slices.Clip(r.parts[0])
	}
	return slices.Concat(r.parts...)
}

// instants returns when the scale of a stored observation was observed, nil for never, and when
// its newest part was, without decoding more than these instants.
func instants(record store.Record) (scaled *timestamppb.Timestamp, newest time.Time, err error) {
	var invalid error
	for f := range protofields.Of(record.Value, &invalid) {
		var at time.Time
		switch f.Number {
		case scaleTimeField, podsTimeField, usageTimeField:
			stamp := &timestamppb.Timestamp{}
			if err := proto.Unmarshal(f.Value, stamp); err != nil {
				return nil, time.Time{}, &UnreadableError{"observation", err}
			}
			if at = stamp.AsTime(); f.Number == scaleTimeField {
				scaled = stamp
			}
		case customField, externalField:
			at = timeOf(f.Value)
		}
		if at.After(newest) {
			newest = at
		}
	}
	if invalid != nil {
		return nil, time.Time{}, &UnreadableError{"observation", invalid}
	}
	return scaled, newest, nil
}

// podsOf returns the names of the pods of a stored observation, and when they were observed, nil for never, without decoding
// more: that would need memory, and who waits for some holds the observation.
func podsOf(record store.Record) (names []string, observed *timestamppb.Timestamp, err error) {
	var invalid, unnamed error
	for f := range protofields.Of(record.Value, &invalid) {
		switch f.Number {
		case podsTimeField:
			observed = &timestamppb.Timestamp{}
			unnamed = cmp.Or(unnamed, proto.Unmarshal(f.Value, observed))
		case podsField:
			name := ""
			for f := range protofields.Of(f.Value, &unnamed) {
				if f.Number == nameField {
					name = string(f.Value)
				}
			}
			names = append(names, name)
		}
	}
	if invalid = cmp.Or(invalid, unnamed); invalid != nil {
		return nil, nil, &UnreadableError{"observation", invalid}
	}
	return names, observed, nil
}

// timeOf returns when an encoded metric was observed.
func timeOf(metric []byte) time.Time {
	var invalid error // and so without a time
	for f := range protofields.Of(metric, &invalid) {
		if f.Number == timeField {
			at := &timestamppb.Timestamp{}
			if proto.Unmarshal(f.Value, at) == nil {
				return at.AsTime()
			}
			break
		}
	}
	return time.Unix(0, 0) // as for a message without a time
}

// encode encodes a partial observation.
func (p *partial) encode() ([]byte, error) {
	value, err := proto.Marshal(p.Observation)
	if err != nil {
		return nil, err
	}
	return slices.Concat(value, p.pods, p.usage, p.rest), nil
}

// openMetric decodes a metric except its values, which it keeps as an unknown field.
func openMetric(from []byte, into proto.Message, identity *[]byte) error {
	var values, decoded run
	var invalid error
	for f := range protofields.Of(from, &invalid) {
		if f.Number == valuesField {
			values.add(f.Raw)
		} else {
			decoded.add(f.Raw)
		}
	}
	if invalid != nil {
		return invalid
	}
	if err := proto.Unmarshal(decoded.bytes(), into); err != nil {
		return err
	}
	if unknown := into.ProtoReflect().GetUnknown(); len(unknown) > 0 {
		values.add(unknown)
	}
	into.ProtoReflect().SetUnknown(values.bytes())
	if len(*identity) == 0 {
		return decodeMetric(into) // from an earlier version: its first value identifies it
	}
	return nil
}

// decodeMetric decodes the values of a metric.
func decodeMetric(m proto.Message) error {
	encoded := m.ProtoReflect().GetUnknown()
	if len(encoded) == 0 {
		return nil
	}
	m.ProtoReflect().SetUnknown(nil)
	return proto.UnmarshalOptions{Merge: true}.Unmarshal(encoded, m)
}

// clearValues drops the values of a metric, decoded or not.
func clearValues(m proto.Message) {
	m.ProtoReflect().SetUnknown(nil)
	m.ProtoReflect().Clear(m.ProtoReflect().Descriptor().Fields().ByNumber(valuesField))
}

// countValues counts the values of a metric.
func countValues(m proto.Message) int {
	n := m.ProtoReflect().Get(m.ProtoReflect().Descriptor().Fields().ByNumber(valuesField)).List().Len()
	var invalid error
	for f := range protofields.Of(m.ProtoReflect().GetUnknown(), &invalid) {
		if f.Number == valuesField {
			n++
		}
	}
	return n
}
