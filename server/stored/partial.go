package stored

import (
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	storedv1 "github.com/setpoint-dev/setpoint/api/setpoint/stored/v1"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// partial is a stored observation that is decoded only where a report touches it: reports
// are often small and observations are not, so decoding and encoding all of it would let
// anybody who may report have the service work a thousand times what is sent.
//
// Values and series stay encoded, as unknown fields of their metric's message, which are
// written as they were read; pods and their usage, which a report replaces as a whole or not at all,
// stay beside.
type partial struct {
	*storedv1.Observation
	// pods, usage and rest are encoded fields: those of pods, of their usage, and metrics of a
	// kind that is not reported, with what newer versions add.
	pods, usage, rest []byte
}

// Fields of the stored messages.
const (
	podsField     protowire.Number = 3 // of Observation
	usageField    protowire.Number = 5
	customField   protowire.Number = 7
	externalField protowire.Number = 8
	timeField     protowire.Number = 1 // of CustomMetricValues and ExternalMetricSeries
	valuesField   protowire.Number = 2
)

// openObservation reads a stored observation in part, for a report: metrics of a kind that it
// has none of are forgotten or kept as they are. What it returns refers to the bytes.
func openObservation(record []byte, report *setpointv1.ReportObservationRequest, before time.Time) (*partial, error) {
	p := &partial{Observation: &storedv1.Observation{}}
	var decoded, pods, usage, rest run // decoded are the fields that are
	for len(record) > 0 {
		field, number, value, err := nextField(record)
		if err != nil {
			return nil, err
		}
		record = record[len(field):]
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
		case number > externalField:
			rest.add(field)
		default:
			decoded.add(field)
		}
	}
	p.pods, p.usage, p.rest = pods.bytes(), usage.bytes(), rest.bytes()
	return p, proto.UnmarshalOptions{Merge: true}.Unmarshal(decoded.bytes(), p.Observation)
}

// run is fields that are to be one after the other. Of those that are already it makes no copy.
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

// bytes are the fields; what is appended to them does not overwrite what follows.
func (r *run) bytes() []byte {
	if len(r.parts) == 1 {
		return slices.Clip(r.parts[0])
	}
	return slices.Concat(r.parts...)
}

// timeOf is when an encoded metric was observed.
func timeOf(metric []byte) time.Time {
	for len(metric) > 0 {
		field, number, value, err := nextField(metric)
		if err != nil {
			break
		}
		if number == timeField {
			at := &timestamppb.Timestamp{}
			if proto.Unmarshal(value, at) == nil {
				return at.AsTime()
			}
			break
		}
		metric = metric[len(field):]
	}
	return time.Unix(0, 0) // as that of a message without one
}

// encode encodes an observation that was opened.
func (p *partial) encode() ([]byte, error) {
	value, err := proto.Marshal(p.Observation)
	if err != nil {
		return nil, err
	}
	return slices.Concat(value, p.pods, p.usage, p.rest), nil
}

// nextField is the first field of bytes; value is nil unless it is one of bytes.
func nextField(from []byte) (field []byte, number protowire.Number, value []byte, err error) {
	number, kind, tag := protowire.ConsumeTag(from)
	if tag < 0 {
		return nil, 0, nil, protowire.ParseError(tag)
	}
	length := protowire.ConsumeFieldValue(number, kind, from[tag:])
	if length < 0 {
		return nil, 0, nil, protowire.ParseError(length)
	}
	if kind == protowire.BytesType {
		value, _ = protowire.ConsumeBytes(from[tag:])
	}
	return from[:tag+length], number, value, nil
}

// openMetric decodes a metric but for its values, which it keeps as an unknown field.
func openMetric(from []byte, into proto.Message, identity *[]byte) error {
	var values, decoded run
	for len(from) > 0 {
		field, number, _, err := nextField(from)
		if err != nil {
			return err
		}
		from = from[len(field):]
		if number == valuesField {
			values.add(field)
		} else {
			decoded.add(field)
		}
	}
	if err := proto.Unmarshal(decoded.bytes(), into); err != nil {
		return err
	}
	if unknown := into.ProtoReflect().GetUnknown(); len(unknown) > 0 {
		values.add(unknown)
	}
	into.ProtoReflect().SetUnknown(values.bytes())
	if len(*identity) == 0 {
		return reveal(into) // of an earlier version: its first value identifies it
	}
	return nil
}

// reveal decodes the values of a metric.
func reveal(m proto.Message) error {
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

// countValues is how many values a metric has.
func countValues(m proto.Message) int {
	n := m.ProtoReflect().Get(m.ProtoReflect().Descriptor().Fields().ByNumber(valuesField)).List().Len()
	for encoded := []byte(m.ProtoReflect().GetUnknown()); len(encoded) > 0; {
		field, number, _, err := nextField(encoded)
		if err != nil {
			break
		}
		if number == valuesField {
			n++
		}
		encoded = encoded[len(field):]
	}
	return n
}
