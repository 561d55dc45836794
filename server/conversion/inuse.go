//go:build !js

package conversion

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// SharedSpec is the hash of what the specs of many workloads have in common: all but the workload's
// name and the bounds, with the options.
type SharedSpec [sha256.Size]byte

// SharedSpecOf returns the hash. Equal specs have equal ones, however they were sent: it is that of
// the message in a canonical encoding.
func SharedSpecOf(spec *setpointv1.HorizontalPodAutoscalerSpec, options *setpointv1.RecommendOptions) SharedSpec {
	return sharedSpecOf(spec, options, nil)
}

func sharedSpecOf(spec *setpointv1.HorizontalPodAutoscalerSpec, options *setpointv1.RecommendOptions, stages *setpointv1.Stages) SharedSpec {
	shared := &setpointv1.HorizontalPodAutoscalerSpec{Metrics: spec.GetMetrics(), Behavior: spec.GetBehavior()}
	if ref := spec.GetScaleTargetRef(); ref != nil {
		shared.ScaleTargetRef = &setpointv1.CrossVersionObjectReference{Kind: ref.GetKind(), ApiVersion: ref.GetApiVersion()}
	}
	if proto.Size(options) == 0 {
		options = nil
	}
	if proto.Size(stages) == 0 {
		stages = nil
	}
	// The request was decoded, so it can be encoded.
	data, _ := proto.MarshalOptions{Deterministic: true}.Marshal(&setpointv1.SpecInUse{Spec: shared, Options: options, Stages: stages})
	return sha256.Sum256(data)
}

// Hash returns the hash of the spec with this workload, "" for none, and these bounds. It is never 0.
func (s *SharedSpec) Hash(workload string, minReplicas, maxReplicas int32) uint64 {
	var room [2 * sha256.Size * 3]byte // most names fit
	b := append(room[:0], s[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(minReplicas))
	b = binary.BigEndian.AppendUint32(b, uint32(maxReplicas))
	sum := sha256.Sum256(append(b, workload...))
	return max(1, binary.BigEndian.Uint64(sum[:]))
}

// HashOfSpec returns the hash of a spec with its options and stages.
func HashOfSpec(spec *setpointv1.HorizontalPodAutoscalerSpec, options *setpointv1.RecommendOptions, stages *setpointv1.Stages) uint64 {
	shared := sharedSpecOf(spec, options, stages)
	return shared.Hash(spec.GetScaleTargetRef().GetName(), validation.MinReplicas(spec), spec.GetMaxReplicas())
}

// SpecInUse returns a spec, its options and its stages with the hash, as they are stored.
func SpecInUse(spec *setpointv1.HorizontalPodAutoscalerSpec, options *setpointv1.RecommendOptions, stages *setpointv1.Stages) *setpointv1.SpecInUse {
	least := validation.MinReplicas(spec)
	if proto.Size(options) == 0 {
		options = nil
	}
	if proto.Size(stages) == 0 {
		stages = nil
	}
	return &setpointv1.SpecInUse{
		Hash: SpecHash(HashOfSpec(spec, options, stages)), Options: options, Stages: stages,
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: spec.GetScaleTargetRef(), MinReplicas: &least, MaxReplicas: spec.GetMaxReplicas(), Metrics: spec.GetMetrics(), Behavior: spec.GetBehavior(),
		},
	}
}

// Options returns options as a request names them, all of them.
func Options(o *recommender.Options) *setpointv1.RecommendOptions {
	tolerance := strconv.FormatFloat(o.Tolerance, 'f', -1, 64)
	return &setpointv1.RecommendOptions{
		Profile: o.Profile.Name(), Tolerance: &tolerance, ScaleToZero: &o.ScaleToZero,
		CpuInitializationPeriod: durationpb.New(o.CPUInitializationPeriod), InitialReadinessDelay: durationpb.New(o.InitialReadinessDelay),
		DownscaleStabilization: durationpb.New(o.DownscaleStabilization),
		UpscaleDelay:           durationpb.New(o.UpscaleDelay), DownscaleDelay: durationpb.New(o.DownscaleDelay),
	}
}
