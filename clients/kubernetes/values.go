package kubernetes

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
)

// The range of a Timestamp; Kubernetes' times can lie a few hours outside because of their
// zone.
var (
	firstInstant = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	lastInstant  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// instant converts a time, clamped to the range of a Timestamp.
func instant(t time.Time) *timestamppb.Timestamp {
	switch {
	case t.Before(firstInstant):
		t = firstInstant
	case t.After(lastInstant):
		t = lastInstant
	}
	return timestamppb.New(t)
}

// instantUnlessZero converts a time. The zero value is an absent time, and stays absent.
func instantUnlessZero(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return instant(t)
}

// quantitiesToProto returns the canonical texts of list by resource name, nil for an empty
// list.
func quantitiesToProto(list corev1.ResourceList) map[string]string {
	if len(list) == 0 {
		return nil
	}
	out := make(map[string]string, len(list))
	for name, quantity := range list {
		out[string(name)] = quantity.String()
	}
	return out
}
