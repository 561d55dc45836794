//go:build linux

package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

func attacks() []*attack {
	return slices.Concat(shapeAttacks(), jsonAttacks(), productAttacks(), leftAttacks(),
		openAttacks(), frameAttacks(), unknownAttacks(), unfinishedAttacks(), edgeAttacks(), recordAttacks(), recordingAttacks(), adminAttacks(), contractAttacks(), readAttacks(), routeAttacks(), waitAttacks(), tenantAttacks(), stageAttacks(), overrideAttacks(), fleetAttacks())
}

// everyWay sends a shape with each carrier. The named ones are also in the short form.
func everyWay(make func() body, short ...string) []step {
	shared := sync.OnceValue(make)
	var steps []step
	for _, c := range carriers() {
		steps = append(steps, step{name: c.name, short: slices.Contains(short, c.name), run: wave(c, shared), bounds: bounds{property: true}})
	}
	return steps
}

// mayAnswer has nothing but these codes answered.
func mayAnswer(steps []step, only ...codes.Code) []step {
	for i := range steps {
		steps[i].only = only
	}
	return steps
}

// shapeAttacks are requests with few bytes but large memory or work, on a process as it is shipped.
// What a request of any shape costs, over each carrier, is the matter of server's TestCostOfAttacks,
// TestCostOfEveryList and FuzzCost.
func shapeAttacks() []*attack {
	return []*attack{
		{name: "explained", item: "1", about: "a valid request of 20,000 pods × 100 metrics, 163 kB, to be explained", steps: everyWay(func() body { return explained(20_000, 100) }, "grpc", "rest")},
		{name: "series", about: "100,000 series of 100 metrics", steps: everyWay(func() body { return series(100, 100_000) }, "grpc")},
		{name: "long-quantities", about: "quantities of a million digits, and with huge exponents", steps: everyWay(longQuantities, "grpc", "rest")},
		{name: "nested-groups", about: "a million groups in one another", steps: []step{{name: "grpc", short: true, bounds: bounds{property: true}, run: wave(carriers()[0], func() body {
			return body{wire: bytes.Repeat(protowire.AppendTag(nil, 1000, protowire.StartGroupType), 1_000_000)}
		})}}},
	}
}

// base encodes a small request, to which the shapes add.
func base() body { return bodyOf(requestFor(hostileTarget)) }

// joined puts the members of two objects into one.
func joined(a, b []byte) []byte {
	return append(append(bytes.TrimSuffix(bytes.TrimSpace(a), []byte("}")), ','), b[1:]...)
}

// short names: of two to four characters.
func shortName(i int) string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyz"
	var b []byte
	for i += len(digits); i > 0; i /= len(digits) {
		b = append(b, digits[i%len(digits)])
	}
	return string(b)
}

// explained is a valid request of so many pods and metrics, to be explained.
func explained(pods, metrics int) body {
	r := requestFor(hostileTarget)
	r.Explain = true
	r.ExternalMetrics, r.Spec.Metrics = nil, nil
	for range metrics {
		r.Spec.Metrics = append(r.Spec.Metrics, &setpointv1.MetricSpec{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{
			Name: "cpu", Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: proto.String("1")},
		}})
	}
	for i := range pods {
		r.Pods = append(r.Pods, &setpointv1.Pod{Name: shortName(i)})
	}
	r.PodMetrics = []*setpointv1.PodMetrics{{Pod: shortName(0), Timestamp: timestamppb.Now(), Containers: []*setpointv1.ContainerMetrics{{Usage: map[string]string{"cpu": "1"}}}}}
	return bodyOf(r)
}

func external(name string) *setpointv1.MetricSpec {
	return &setpointv1.MetricSpec{Type: "External", External: &setpointv1.ExternalMetricSource{
		Metric: &setpointv1.MetricIdentifier{Name: name},
		Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: proto.String("10")},
	}}
}

// series has as many series, of so many metrics in turn.
func series(metrics, n int) body {
	r := requestFor(hostileTarget)
	r.Spec.Metrics, r.ExternalMetrics = nil, nil
	for i := range metrics {
		r.Spec.Metrics = append(r.Spec.Metrics, external(fmt.Sprint("m", i)))
	}
	for i := range n {
		r.ExternalMetrics = append(r.ExternalMetrics, &setpointv1.ExternalMetric{Metric: &setpointv1.MetricIdentifier{Name: fmt.Sprint("m", i%metrics)}, Value: "1"})
	}
	return bodyOf(r)
}

func longQuantities() body {
	r := requestFor(hostileTarget)
	digits := strings.Repeat("9", 1_000_000)
	r.ExternalMetrics = nil
	for _, value := range []string{digits, "0." + digits, digits + "e" + digits, "1e999999999", "1E-999999999", "0x" + digits, "1e" + digits, "+" + digits + "Ki"} {
		r.ExternalMetrics = append(r.ExternalMetrics, &setpointv1.ExternalMetric{Metric: &setpointv1.MetricIdentifier{Name: "queue-depth"}, Value: value})
	}
	r.Spec.Metrics[0].External.Target.AverageValue = proto.String(digits)
	return bodyOf(r)
}
