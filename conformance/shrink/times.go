package shrink

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// begin is the start of simplified scenarios, gap the distance of their steps.
var (
	begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	gap   = 15 * time.Second
)

// wholeSeconds truncates steps to the second.
func wholeSeconds(s *recording.Scenario) []func() {
	var out []func()
	for i := range s.Steps {
		at := &s.Steps[i].Time
		out = append(out, if1(at.Nanosecond() != 0, func() { *at = at.Truncate(time.Second) })...)
	}
	return out
}

// evenGaps moves a step to one period after the second of the previous step, and all
// later ones with it, by whole seconds.
func evenGaps(s *recording.Scenario) []func() {
	var out []func()
	for i := 1; i < len(s.Steps); i++ {
		by := func() time.Duration {
			return s.Steps[i-1].Time.Truncate(time.Second).Add(gap).Sub(s.Steps[i].Time)
		}
		out = append(out, if1(by() != 0, func() {
			exact := by()
			later := exact.Truncate(time.Second)
			if exact > later {
				later += time.Second
			}
			s.Steps[i].Time = s.Steps[i].Time.Add(exact)
			for j := i + 1; j < len(s.Steps); j++ {
				s.Steps[j].Time = s.Steps[j].Time.Add(later)
			}
		})...)
	}
	return out
}

// earlyStart moves the scenario with all its times, so that it begins within the first
// second of simplified ones.
func earlyStart(s *recording.Scenario) []func() {
	if len(s.Steps) == 0 {
		return nil
	}
	by := begin.Sub(s.Steps[0].Time.Truncate(time.Second))
	return if1(by != 0, func() { shift(s, by) })
}

// shift moves all times that are set.
func shift(s *recording.Scenario, by time.Duration) {
	move := func(t *metav1.Time) {
		if t != nil && !t.IsZero() {
			t.Time = t.Add(by)
		}
	}
	status := &s.HPA.Status
	move(status.LastScaleTime)
	for i := range status.Conditions {
		move(&status.Conditions[i].LastTransitionTime)
	}
	for i := range s.Steps {
		step := &s.Steps[i]
		step.Time = step.Time.Add(by)
		for _, p := range step.Pods {
			move(p.DeletionTimestamp)
			move(p.Status.StartTime)
			for j := range p.Status.Conditions {
				move(&p.Status.Conditions[j].LastTransitionTime)
			}
		}
		for j := range step.PodMetrics {
			move(&step.PodMetrics[j].Timestamp)
		}
		for j := range step.CustomMetrics {
			move(&step.CustomMetrics[j].Timestamp)
		}
		for j := range step.ExternalMetrics {
			move(&step.ExternalMetrics[j].Timestamp)
		}
	}
}

// plainInstants moves changes of conditions to their pod's start, and unsets those of
// pods without a start.
var plainInstants = ofPods(func(p *corev1.Pod) []func() {
	start := metav1.Time{}
	if p.Status.StartTime != nil {
		start = *p.Status.StartTime
	}
	var out []func()
	for i := range p.Status.Conditions {
		at := &p.Status.Conditions[i].LastTransitionTime
		out = append(out, if1(!at.Time.Equal(start.Time), func() { *at = start })...)
	}
	return out
})
