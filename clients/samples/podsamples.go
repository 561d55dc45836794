package samples

import (
	"errors"
	"time"

	"github.com/setpoint-dev/setpoint/clients/samples/source"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// sampleOf converts a value, with the query's window.
func sampleOf(q Query, v source.Value) Sample {
	v.Window = time.Duration(q.Window)
	return v.Sample
}

// podSamples returns the values of the pods that keep accepts: problems of other pods' values
// don't matter. A pod with a value that is NaN, old or missing has no sample.
func podSamples(q Query, values []source.Value, keep func(pod string) bool) ([]Sample, error) {
	type place struct{ pod, container string }
	var (
		samples                []Sample
		unnamed, others, empty int
		withoutValue           = map[string]bool{}
		seen                   = make(map[place]bool, len(values))
	)
	for _, v := range values {
		switch {
		case v.Pod == "" || q.OfContainers() && v.Container == "":
			unnamed++
			continue
		case !keep(v.Pod):
			others++
			continue
		}
		at := place{v.Pod, v.Container}
		if seen[at] {
			return nil, source.Failed(Invalid, "it has several values for pod %q: aggregate them, as with sum by (…)", typed.Shorten(v.Pod, typed.MaxQuoted))
		}
		seen[at] = true
		switch {
		case errors.Is(v.Err, source.ErrNaN), errors.Is(v.Err, source.ErrNoSample):
			empty++
			withoutValue[v.Pod] = true
		case v.Err != nil:
			return nil, source.Failed(Invalid, "%v", v.Err)
		default:
			samples = append(samples, sampleOf(q, v))
		}
	}
	if len(withoutValue) > 0 {
		kept := samples[:0]
		for _, s := range samples {
			if !withoutValue[s.Pod] {
				kept = append(kept, s)
			}
		}
		samples = kept
	}
	if len(samples) == 0 {
		return nil, source.Failed(Empty, "none of %d values belongs to a pod of the workload: %d name no pod or container, %d are of other pods, %d are NaN, old or missing: check the setting that names the pod",
			len(values), unnamed, others, empty)
	}
	return samples, nil
}
