package shadows

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	storedv1 "github.com/setpoint-dev/setpoint/api/setpoint/stored/v1"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/conversion"
)

// States returns the shadows of a record for callers.
func States(kept []byte) (all []*setpointv1.ShadowState) {
	k := decode(kept)
	for _, spec := range k.GetSpecs() {
		state := &setpointv1.ShadowState{Name: spec.GetName(), SpecHash: conversion.SpecHash(spec.GetHash())}
		if h := historyFor(k, spec); h != nil {
			state.DesiredReplicas, state.LiveReplicas, state.Problem = h.GetDesired(), h.GetLive(), h.GetProblem()
			state.DiffersSinceTime = conversion.Milliseconds(h.GetDiffersSince())
			if spans := spansOf(h.GetSpans()); len(spans) > 0 {
				total := spans.since(0)
				state.SinceTime = conversion.Milliseconds(total.from)
				state.ComparedDecisions, state.DifferentDecisions, state.LargestDifference = total.compared, total.different, int32(total.largest)
				state.ObservedDuration = durationpb.New(time.Duration(total.observed) * time.Millisecond)
				state.LiveReplicaSeconds, state.ShadowReplicaSeconds = total.replicaSeconds()
			}
		}
		all = append(all, state)
	}
	return all
}

func historyFor(k *storedv1.Shadows, spec *storedv1.ShadowSpec) *storedv1.ShadowHistory {
	for _, h := range k.GetHistories() {
		if h.GetName() == spec.GetName() && h.GetHash() == spec.GetHash() {
			return h
		}
	}
	return nil
}
