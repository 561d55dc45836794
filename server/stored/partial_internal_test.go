package stored

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	storedv1 "github.com/setpoint-dev/setpoint/api/setpoint/stored/v1"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store"
)

// randomReport is a report of some of few metrics, so that reports meet.
func randomReport(r *rand.Rand) *setpointv1.ReportObservationRequest {
	report := &setpointv1.ReportObservationRequest{}
	if r.IntN(2) == 0 {
		report.Scale = &setpointv1.Scale{SpecReplicas: r.Int32N(9)}
	}
	switch r.IntN(4) {
	case 0:
		report.NoPods = true
	case 1:
		for i := range 1 + r.IntN(4) {
			report.Pods = append(report.Pods, &setpointv1.Pod{Name: fmt.Sprint("p", i)})
		}
	case 2:
		report.PodMetrics = []*setpointv1.PodMetrics{{Pod: fmt.Sprint("p", r.IntN(4))}}
	}
	kinds := []string{"Pod", "Pod", "Ingress", "Namespace"}
	for range r.IntN(4) * r.IntN(12) {
		report.CustomMetrics = append(report.CustomMetrics, value(fmt.Sprint("m", r.IntN(3)), kinds[r.IntN(len(kinds))], fmt.Sprint("p", r.IntN(30)), fmt.Sprint(r.IntN(100))))
	}
	selectors := []map[string]string{nil, {}, {"color": "red"}}
	for range r.IntN(4) {
		report.ExternalMetrics = append(report.ExternalMetrics, series(fmt.Sprint("q", r.IntN(3)), selectors[r.IntN(3)], fmt.Sprint(r.IntN(100))))
	}
	return report
}

// What is decoded in part comes to what it comes to decoded whole, whatever is reported in
// whichever order, by instances of both kinds in turn.
func TestReportsOnWhatIsDecodedInPart(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		whole, record := &storedv1.Observation{}, []byte(nil)
		now := t0
		for step := range 40 {
			now = now.Add(time.Duration(r.IntN(600)) * time.Second)
			at := now.Add(-time.Duration(r.IntN(3)) * 10 * time.Minute)
			report := randomReport(r)
			fatal.If(t, merge(whole, proto.Clone(report).(*setpointv1.ReportObservationRequest), at))
			forget(whole, now.Add(-Kept))
			opened, err := openObservation(record, report, now.Add(-Kept))
			fatal.If(t, err)
			if len(report.GetCustomMetrics()) == 0 && len(opened.CustomMetrics) > 0 || len(report.GetExternalMetrics()) == 0 && len(opened.ExternalMetrics) > 0 || len(opened.Pods) > 0 {
				t.Fatalf("seed %d, step %d: what the report does not have was decoded", seed, step)
			}
			fatal.If(t, opened.report(report, at, now))
			record, err = opened.encode()
			fatal.If(t, err)
			got, err := decodeObservation(store.Record{Value: record})
			fatal.If(t, err)
			if !proto.Equal(got, whole) {
				t.Fatalf("seed %d, step %d: decoded in part it comes to\n%v\nand decoded whole to\n%v", seed, step, got, whole)
			}
			if r.IntN(4) == 0 { // another instance, that decodes all
				record, err = proto.Marshal(got)
				fatal.If(t, err)
			}
		}
	}
}

func FuzzOpenObservation(f *testing.F) {
	for seed := range uint64(5) {
		o := &storedv1.Observation{}
		fatal.If(f, merge(o, randomReport(rand.New(rand.NewPCG(seed, 2))), t0))
		record, _ := proto.Marshal(o)
		f.Add(record)
	}
	report := randomReport(rand.New(rand.NewPCG(3, 3)))
	f.Fuzz(func(t *testing.T, record []byte) {
		opened, err := openObservation(record, report, t0.Add(-Kept))
		if err != nil {
			return
		}
		if opened.report(proto.Clone(report).(*setpointv1.ReportObservationRequest), t0, t0) != nil {
			return
		}
		if _, err := opened.encode(); err != nil {
			t.Skip(err) // text that is not UTF-8, as when decoded whole
		}
	})
}
