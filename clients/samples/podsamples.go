package samples

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// The service's bounds.
const (
	maxLabels     = 256
	maxNameLength = 253
)

// bound makes the value invalid if the service would refuse it, because the service refuses the
// whole request.
func (v *value) bound() {
	switch {
	case v.err != nil:
	case len(v.Labels) > maxLabels:
		v.err = fmt.Errorf("a series has more than %d labels: aggregate them, as with sum()", maxLabels)
	case len(v.Pod) > maxNameLength || len(v.Container) > maxNameLength:
		v.err = fmt.Errorf("a name of a pod or container is longer than %d bytes", maxNameLength)
	case !utf8.ValidString(v.Pod) || !utf8.ValidString(v.Container):
		v.err = errors.New("a name of a pod or container is not valid UTF-8")
	case v.Timestamp.Year() < 1970 || v.Timestamp.Year() > 9999:
		v.err = errors.New("a timestamp is not between the years 1970 and 9999")
	}
}

// sample converts a value, with the query's window.
func (q Query) sample(v value) Sample {
	v.Window = time.Duration(q.Window)
	return v.Sample
}

// podSamples returns the values of the pods that keep accepts: problems of other pods' values
// don't matter. A pod with a value that is NaN, old or missing has no sample.
func (q Query) podSamples(values []value, keep func(pod string) bool) ([]Sample, error) {
	type place struct{ pod, container string }
	var (
		samples                []Sample
		unnamed, others, empty int
		withoutValue           = map[string]bool{}
		seen                   = make(map[place]bool, len(values))
	)
	for _, v := range values {
		switch {
		case v.Pod == "" || q.ofContainers() && v.Container == "":
			unnamed++
			continue
		case !keep(v.Pod):
			others++
			continue
		}
		at := place{v.Pod, v.Container}
		if seen[at] {
			return nil, failed(Invalid, "it has several values for pod %q: aggregate them, as with sum by (…)", shorten(v.Pod, maxQuoted))
		}
		seen[at] = true
		switch {
		case errors.Is(v.err, errNaN), errors.Is(v.err, errNoSample):
			empty++
			withoutValue[v.Pod] = true
		case v.err != nil:
			return nil, failed(Invalid, "%v", v.err)
		default:
			samples = append(samples, q.sample(v))
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
		return nil, failed(Empty, "none of %d values belongs to a pod of the workload: %d name no pod or container, %d are of other pods, %d are NaN, old or missing: check the setting that names the pod",
			len(values), unnamed, others, empty)
	}
	return samples, nil
}
