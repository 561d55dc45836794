package shrink

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// replay calls visit for each step with the current spec, nil for none, and reports
// whether one of the calls returned true.
func replay(s *recording.Scenario, visit func(i int, spec *autoscalingv2.HorizontalPodAutoscalerSpec, step *recording.Step) bool) bool {
	spec := &s.HPA.Spec
	for i := range s.Steps {
		step := &s.Steps[i]
		if step.HPADeleted {
			spec = nil
		}
		if step.HPA != nil {
			spec = &step.HPA.Spec
		}
		if visit(i, spec, step) {
			return true
		}
	}
	return false
}

func anyStep(is func(step *recording.Step) bool) func(*recording.Scenario) bool {
	return func(s *recording.Scenario) bool {
		return replay(s, func(_ int, _ *autoscalingv2.HorizontalPodAutoscalerSpec, step *recording.Step) bool { return is(step) })
	}
}

func anySample(is func(*metricsv1beta1.PodMetrics) bool) func(*recording.Scenario) bool {
	return anyStep(func(step *recording.Step) bool {
		for i := range step.PodMetrics {
			if is(&step.PodMetrics[i]) {
				return true
			}
		}
		return false
	})
}

func anySpec(is func(*autoscalingv2.HorizontalPodAutoscalerSpec) bool) func(*recording.Scenario) bool {
	return func(s *recording.Scenario) bool { return slices.ContainsFunc(specs(s), is) }
}

func hasMetric(spec *autoscalingv2.HorizontalPodAutoscalerSpec, kind autoscalingv2.MetricSourceType) bool {
	return spec != nil && slices.ContainsFunc(spec.Metrics, func(m autoscalingv2.MetricSpec) bool { return m.Type == kind })
}

// spelled writes out what small scenarios have in common.
var spelled = func() *strings.Replacer {
	parts := []string{
		"$config", `{"cpuInitializationPeriodSeconds":300,"downscaleStabilizationSeconds":300,"initialReadinessDelaySeconds":30,"scaleToZero":false,"tolerance":0.1}`,
		"$meta", `"metadata":{"name":"web","namespace":"shop"}`,
		"$cpu", `{"resource":{"name":"cpu","target":{"averageUtilization":1,"type":"Utilization"}},"type":"Resource"}`,
		"$target", `"minReplicas":1,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}`,
		"$scale", `"scale":{"status":{"replicas":0}}`,
		"$name", `"name":"rich","source":"test"`,
		"$status", `"status":{"desiredReplicas":0}`,
		"$t", "2026-01-01T00:00",
	}
	plain := strings.NewReplacer(parts...).Replace(
		`{"config":$config,"hpa":{$meta,"spec":{"maxReplicas":1,"metrics":[$cpu],$target},$status},$name,"steps":[{`)
	return strings.NewReplacer(append(parts, "$plain", plain)...)
}()

// failures are conditions of scenarios, and what a rich scenario shrinks to.
var failures = []struct {
	name  string
	fails func(*recording.Scenario) bool
	want  string
}{
	{"a pending pod under an External metric", func(s *recording.Scenario) bool {
		return replay(s, func(_ int, spec *autoscalingv2.HorizontalPodAutoscalerSpec, step *recording.Step) bool {
			return hasMetric(spec, "External") && slices.ContainsFunc(step.Pods, func(p *corev1.Pod) bool { return p.Status.Phase == "Pending" })
		})
	}, `{"config":$config,"hpa":{$meta,"spec":{"maxReplicas":1,"metrics":[{"external":{"metric":{"name":"m"},"target":{"averageValue":"1","type":"AverageValue"}},"type":"External"}],$target},$status},$name,"steps":[{"pods":[{"metadata":{"name":"a"},"spec":{"containers":[]},"status":{"phase":"Pending"}}],$scale,"time":"$t:00Z"}]}`},
	{"a metric that fails by its name", anyStep(func(step *recording.Step) bool { return step.Errors["custom:packets"] != "" }), `$plain"errors":{"custom:packets":"x"},$scale,"time":"$t:00Z"}]}`},
	{"a metric that fails by the name of the spec", func(s *recording.Scenario) bool {
		return replay(s, func(_ int, spec *autoscalingv2.HorizontalPodAutoscalerSpec, step *recording.Step) bool {
			return spec != nil && slices.ContainsFunc(identifiers(spec), func(id *autoscalingv2.MetricIdentifier) bool { return step.Errors["custom:"+id.Name] != "" })
		})
	}, `{"config":$config,"hpa":{$meta,"spec":{"maxReplicas":1,"metrics":[{"pods":{"metric":{"name":"m"},"target":{"averageValue":"1","type":"AverageValue"}},"type":"Pods"}],$target},$status},$name,"steps":[{"errors":{"custom:m":"x"},$scale,"time":"$t:00Z"}]}`},
	{"two steps far apart", func(s *recording.Scenario) bool {
		return len(s.Steps) > 1 && s.Steps[len(s.Steps)-1].Time.Sub(s.Steps[0].Time) > time.Minute
	}, `$plain$scale,"time":"$t:00Z"},{$scale,"time":"2026-01-01T00:01:40Z"}]}`},
	{"an even number of steps", func(s *recording.Scenario) bool { return len(s.Steps)%2 == 0 && len(s.Steps) > 2 }, `$plain$scale,"time":"$t:00Z"},{$scale,"time":"$t:15Z"},{$scale,"time":"$t:30Z"},{$scale,"time":"$t:45Z"}]}`},
	{"a step between seconds", anyStep(func(step *recording.Step) bool { return step.Time.Nanosecond() == 7 }), `$plain$scale,"time":"$t:00.000000007Z"}]}`},
	{"an autoscaler that is made again", func(s *recording.Scenario) bool {
		deleted := false
		return replay(s, func(_ int, _ *autoscalingv2.HorizontalPodAutoscalerSpec, step *recording.Step) bool {
			deleted = deleted || step.HPADeleted
			return deleted && step.HPA != nil
		})
	}, `$plain"hpaDeleted":true,$scale,"time":"$t:00Z"},{"hpa":{$meta,"spec":{"maxReplicas":1,"metrics":[$cpu],$target},$status},$scale,"time":"$t:15Z"}]}`},
	{"an edit that is followed by a step", func(s *recording.Scenario) bool {
		return replay(s, func(i int, spec *autoscalingv2.HorizontalPodAutoscalerSpec, step *recording.Step) bool {
			return i > 0 && s.Steps[i-1].HPA != nil && spec.MaxReplicas == 25 && step.HPA == nil
		})
	}, `$plain"hpa":{$meta,"spec":{"maxReplicas":25,"metrics":[$cpu],$target},$status},$scale,"time":"$t:00Z"},{$scale,"time":"$t:15Z"}]}`},
	{"seven replicas", anyStep(func(step *recording.Step) bool { return step.Scale != nil && step.Scale.Spec.Replicas >= 7 }), `$plain"scale":{"spec":{"replicas":7},"status":{"replicas":0}},"time":"$t:00Z"}]}`},
	{"a percentage and a tolerance", anySpec(func(spec *autoscalingv2.HorizontalPodAutoscalerSpec) bool {
		return spec.Behavior != nil && spec.Behavior.ScaleUp.Tolerance != nil &&
			slices.ContainsFunc(spec.Behavior.ScaleUp.Policies, func(p autoscalingv2.HPAScalingPolicy) bool { return p.Type == "Percent" && p.Value > 20 })
	}), `{"config":$config,"hpa":{$meta,"spec":{"behavior":{"scaleDown":{"policies":[{"periodSeconds":1,"type":"Percent","value":1}],"selectPolicy":"Max"},"scaleUp":{"policies":[{"periodSeconds":1,"type":"Percent","value":21}],"selectPolicy":"Max","stabilizationWindowSeconds":0,"tolerance":"0"}},"maxReplicas":1,"metrics":[$cpu],$target},$status},$name,"steps":[{$scale,"time":"$t:00Z"}]}`},
	{"a window down", anySpec(func(spec *autoscalingv2.HorizontalPodAutoscalerSpec) bool {
		return spec.Behavior != nil && spec.Behavior.ScaleDown.StabilizationWindowSeconds != nil && *spec.Behavior.ScaleDown.StabilizationWindowSeconds > 60
	}), `{"config":$config,"hpa":{$meta,"spec":{"behavior":{"scaleDown":{"policies":[{"periodSeconds":1,"type":"Percent","value":1}],"selectPolicy":"Max","stabilizationWindowSeconds":61},"scaleUp":{"policies":[{"periodSeconds":1,"type":"Pods","value":1}],"selectPolicy":"Max","stabilizationWindowSeconds":0}},"maxReplicas":1,"metrics":[$cpu],$target},$status},$name,"steps":[{$scale,"time":"$t:00Z"}]}`},
	{"a sample of a pod that is not listed", anyStep(func(step *recording.Step) bool {
		return slices.ContainsFunc(podNames(&recording.Scenario{Steps: []recording.Step{*step}}), func(name string) bool {
			return !slices.ContainsFunc(step.Pods, func(p *corev1.Pod) bool { return p.Name == name })
		}) && len(step.PodMetrics) > 0 && len(step.PodMetrics[0].Containers) > 0 && !step.PodMetrics[0].Containers[0].Usage.Cpu().IsZero()
	}), `$plain"podMetrics":[{"containers":[{"name":"c","usage":{"cpu":"1"}}],"metadata":{"name":"a"},"window":"0s"}],$scale,"time":"$t:00Z"}]}`},
	{"a container that a metric is of", func(s *recording.Scenario) bool {
		return replay(s, func(_ int, spec *autoscalingv2.HorizontalPodAutoscalerSpec, step *recording.Step) bool {
			if spec == nil || !hasMetric(spec, "ContainerResource") {
				return false
			}
			for i := range spec.Metrics {
				c := spec.Metrics[i].ContainerResource
				for _, p := range step.Pods {
					if c != nil && slices.ContainsFunc(p.Spec.Containers, func(of corev1.Container) bool { return of.Name == c.Container }) {
						return true
					}
				}
			}
			return false
		})
	}, `{"config":$config,"hpa":{$meta,"spec":{"maxReplicas":1,"metrics":[{"containerResource":{"container":"c","name":"memory","target":{"averageValue":"1","type":"AverageValue"}},"type":"ContainerResource"}],$target},$status},$name,"steps":[{"pods":[{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c"}]},"status":{"phase":"Running"}}],$scale,"time":"$t:00Z"}]}`},
	{"a pod that the selector matches", anyStep(func(step *recording.Step) bool {
		return step.Scale != nil && step.Scale.Status.Selector != "" && slices.ContainsFunc(step.Pods, func(p *corev1.Pod) bool { return p.Labels["app"] == "web" })
	}), `$plain"pods":[{"metadata":{"labels":{"app":"web"},"name":"a"},"spec":{"containers":[]},"status":{"phase":"Running"}}],"scale":{"status":{"replicas":0,"selector":"app=web"}},"time":"$t:00Z"}]}`},
	{"a total above 15", anyStep(func(step *recording.Step) bool {
		var sum int64
		for i := range step.ExternalMetrics {
			sum += step.ExternalMetrics[i].Value.MilliValue()
		}
		return sum > 15_000
	}), `$plain"externalMetrics":[{"metricName":"m","value":"20"}],$scale,"time":"$t:00Z"}]}`},
	{"a pod's requests", anyStep(func(step *recording.Step) bool {
		return slices.ContainsFunc(step.Pods, func(p *corev1.Pod) bool {
			return p.Spec.Resources != nil && !p.Spec.Overhead.Cpu().IsZero() && len(p.Spec.InitContainers) > 0
		})
	}), `$plain"pods":[{"metadata":{"name":"a"},"spec":{"containers":[],"initContainers":[{"name":"c"}],"overhead":{"cpu":"1"}},"status":{"phase":"Running"}}],$scale,"time":"$t:00Z"}]}`},
	{"a pod that was never ready", anyStep(func(step *recording.Step) bool {
		return slices.ContainsFunc(step.Pods, func(p *corev1.Pod) bool {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && p.Status.StartTime != nil {
					return c.LastTransitionTime.Sub(p.Status.StartTime.Time) == 30*time.Second
				}
			}
			return false
		})
	}), `$plain"pods":[{"metadata":{"name":"a"},"spec":{"containers":[]},"status":{"conditions":[{"lastTransitionTime":"2025-12-31T23:55:30Z","status":"False","type":"Ready"}],"phase":"Running","startTime":"2025-12-31T23:55:00Z"}}],$scale,"time":"$t:00Z"}]}`},
	{"a condition from before", func(s *recording.Scenario) bool {
		return slices.ContainsFunc(s.HPA.Status.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool { return c.Type == "ScaledToZero" })
	}, `{"config":$config,"hpa":{$meta,"spec":{"maxReplicas":1,"metrics":[$cpu],$target},"status":{"conditions":[{"reason":"R","status":"False","type":"ScaledToZero"}],"currentMetrics":[],"desiredReplicas":0}},$name,"steps":[{$scale,"time":"$t:00Z"}]}`},
	{"another autoscaler", func(s *recording.Scenario) bool {
		return slices.ContainsFunc(s.OtherHPAs, func(o recording.OtherHPA) bool { return o.Namespace == "elsewhere" })
	}, `{"config":$config,"hpa":{$meta,"spec":{"maxReplicas":1,"metrics":[$cpu],$target},$status},"name":"rich","otherHpas":[{"name":"far","namespace":"elsewhere","selector":"app"}],"source":"test","steps":[{$scale,"time":"$t:00Z"}]}`},
	{"a setting", func(s *recording.Scenario) bool { return s.Config.ScaleToZero && s.Config.Tolerance < 0.1 }, `{"config":{"cpuInitializationPeriodSeconds":300,"downscaleStabilizationSeconds":300,"initialReadinessDelaySeconds":30,"scaleToZero":true,"tolerance":0.05},"hpa":{$meta,"spec":{"maxReplicas":1,"metrics":[$cpu],$target},$status},$name,"steps":[{$scale,"time":"$t:00Z"}]}`},
	{"a selector", anySpec(func(spec *autoscalingv2.HorizontalPodAutoscalerSpec) bool {
		return slices.ContainsFunc(identifiers(spec), func(id *autoscalingv2.MetricIdentifier) bool {
			return id.Selector != nil && id.Selector.MatchLabels["zone"] != ""
		})
	}), `{"config":$config,"hpa":{$meta,"spec":{"maxReplicas":1,"metrics":[{"pods":{"metric":{"name":"m","selector":{"matchLabels":{"zone":"z1"}}},"target":{"averageValue":"1","type":"AverageValue"}},"type":"Pods"}],$target},$status},$name,"steps":[{$scale,"time":"$t:00Z"}]}`},
	{"a spec that came by an edit", anySpec(func(spec *autoscalingv2.HorizontalPodAutoscalerSpec) bool { return spec.MaxReplicas > 20 }), `{"config":$config,"hpa":{$meta,"spec":{"maxReplicas":21,"metrics":[$cpu],$target},$status},$name,"steps":[{$scale,"time":"$t:00Z"}]}`},
	{"an edit that leaves the metrics as they are", func(s *recording.Scenario) bool {
		all := specs(s)
		for _, spec := range all {
			if len(spec.Metrics) != len(all[0].Metrics) || !hasMetric(spec, "External") {
				return false
			}
		}
		return len(all) > 1
	}, `{"config":$config,"hpa":{$meta,"spec":{"maxReplicas":1,"metrics":[{"external":{"metric":{"name":"m"},"target":{"averageValue":"1","type":"AverageValue"}},"type":"External"}],$target},$status},$name,"steps":[{"hpa":{$meta,"spec":{"maxReplicas":1,"metrics":[{"external":{"metric":{"name":"m"},"target":{"averageValue":"1","type":"AverageValue"}},"type":"External"}],$target},$status},$scale,"time":"$t:00Z"}]}`},
	{"an edit from one metric to another", func(s *recording.Scenario) bool {
		return hasMetric(&s.HPA.Spec, "Resource") && slices.ContainsFunc(specs(s)[1:], func(spec *autoscalingv2.HorizontalPodAutoscalerSpec) bool {
			return hasMetric(spec, "Object")
		})
	}, `$plain"hpa":{$meta,"spec":{"maxReplicas":1,"metrics":[{"object":{"describedObject":{"apiVersion":"v1","kind":"Pod","name":"web-0"},"metric":{"name":"m"},"target":{"type":"Value","value":"1"}},"type":"Object"}],$target},$status},$scale,"time":"$t:00Z"}]}`},
	{"the first spec, and two steps at an instant", func(s *recording.Scenario) bool {
		return s.HPA.Spec.MaxReplicas < 21 && s.HPA.Spec.MaxReplicas > 16 && replay(s, func(i int, _ *autoscalingv2.HorizontalPodAutoscalerSpec, step *recording.Step) bool {
			return i > 0 && step.Time.Equal(s.Steps[i-1].Time)
		})
	}, `{"config":$config,"hpa":{$meta,"spec":{"maxReplicas":17,"metrics":[$cpu],$target},$status},$name,"steps":[{$scale,"time":"$t:00Z"},{$scale,"time":"$t:00Z"}]}`},
	{"two steps in a second", func(s *recording.Scenario) bool {
		return replay(s, func(i int, _ *autoscalingv2.HorizontalPodAutoscalerSpec, step *recording.Step) bool {
			return i > 0 && s.Steps[i-1].Time.Nanosecond() == 5e8 && step.Time.Truncate(time.Second).Equal(s.Steps[i-1].Time.Truncate(time.Second))
		})
	}, `$plain$scale,"time":"$t:00.5Z"},{$scale,"time":"$t:00.5Z"}]}`},
	{"a series, and as many samples as pods", func(s *recording.Scenario) bool {
		for i := range s.Steps {
			if len(s.Steps[i].Pods) != len(s.Steps[i].PodMetrics) {
				return false
			}
		}
		return anyStep(func(step *recording.Step) bool { return len(step.ExternalMetrics) > 0 })(s)
	}, `$plain"externalMetrics":[{"metricName":"m","value":"0"}],$scale,"time":"$t:00Z"}]}`},
	{"a sample before its pod", func(s *recording.Scenario) bool {
		return replay(s, func(i int, _ *autoscalingv2.HorizontalPodAutoscalerSpec, step *recording.Step) bool {
			return i > 0 && slices.ContainsFunc(s.Steps[i-1].PodMetrics, func(m metricsv1beta1.PodMetrics) bool {
				return slices.ContainsFunc(step.Pods, func(p *corev1.Pod) bool { return p.Name == m.Name })
			})
		})
	}, `$plain"podMetrics":[{"containers":[],"metadata":{"name":"a"},"window":"0s"}],$scale,"time":"$t:00Z"},{"pods":[{"metadata":{"name":"a"},"spec":{"containers":[]},"status":{"phase":"Running"}}],$scale,"time":"$t:15Z"}]}`},
	{"the window of a sample", anySample(func(m *metricsv1beta1.PodMetrics) bool { return m.Window.Seconds() == 30 }), `$plain"podMetrics":[{"containers":[],"metadata":{"name":"a"},"window":"30s"}],$scale,"time":"$t:00Z"}]}`},
	{"a container of a sample", anySample(func(m *metricsv1beta1.PodMetrics) bool { return len(m.Containers) > 0 }), `$plain"podMetrics":[{"containers":[{"name":"c"}],"metadata":{"name":"a"},"window":"0s"}],$scale,"time":"$t:00Z"}]}`},
	{"a usage that is rounded", anySample(func(m *metricsv1beta1.PodMetrics) bool {
		return len(m.Containers) > 0 && m.Containers[0].Usage.Cpu().MilliValue() == 124
	}), `$plain"podMetrics":[{"containers":[{"name":"c","usage":{"cpu":"124m"}}],"metadata":{"name":"a"},"window":"0s"}],$scale,"time":"$t:00Z"}]}`},
	{"a usage of any size", anySample(func(m *metricsv1beta1.PodMetrics) bool {
		return len(m.Containers) > 0 && len(m.Containers[0].Usage) > 0
	}), `$plain"podMetrics":[{"containers":[{"name":"c","usage":{"cpu":"0"}}],"metadata":{"name":"a"},"window":"0s"}],$scale,"time":"$t:00Z"}]}`},
	{"a value above none", anyStep(func(step *recording.Step) bool {
		return len(step.CustomMetrics) > 0 && step.CustomMetrics[0].Value.Sign() > 0
	}), `$plain"customMetrics":[{"describedObject":{"apiVersion":"v1","kind":"Pod","name":"a"},"metric":{"name":"m"},"value":"1"}],$scale,"time":"$t:00Z"}]}`},
	{"an expectation", anyStep(func(step *recording.Step) bool { return step.Expect != nil }), `$plain"expect":{"conditions":[{"message":"m","reason":"R","status":"True","type":"AbleToScale"}],"currentMetrics":[{"type":""}],"currentReplicas":9,"desiredReplicas":9,"events":[{"message":"m","reason":"R","type":"Normal"}],"scaled":false},"platformDependent":["scaled"],$scale,"time":"$t:00Z"}]}`},
	{"a scale that can't be read or written", anyStep(func(step *recording.Step) bool { return step.ScaleGetError != "" && step.ScaleUpdateError != "" }), `$plain$scale,"scaleGetError":"x","scaleUpdateError":"x","time":"$t:00Z"}]}`},
}

func TestScenariosShrinkToWhatTheFailureNeeds(t *testing.T) {
	t.Parallel()
	for _, test := range failures {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			whole := rich(t)
			calls := 0
			small := Scenario(whole, func(s *recording.Scenario) bool {
				calls++
				for i := 1; i < len(s.Steps); i++ {
					if s.Steps[i].Time.Before(s.Steps[i-1].Time) {
						t.Fatal("a candidate goes back in time")
					}
				}
				return test.fails(s)
			}, Budget{})
			if !test.fails(small) {
				t.Error("does not fail any more")
			}
			if got, want := line(t, small), spelled.Replace(test.want); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if line(t, whole) != line(t, rich(t)) || !reflect.DeepEqual(whole, rich(t)) {
				t.Error("the scenario that was given is another one now")
			}
			t.Logf("%d calls", calls)
			if calls > 1500 {
				t.Errorf("%d calls", calls)
			}
		})
	}
}

func TestTheBudgetIsKept(t *testing.T) {
	t.Parallel()
	pending := failures[0].fails
	whole := rich(t)
	previous := len(line(t, whole))
	for budget := range 60 {
		if budget == 0 {
			continue // no bound
		}
		calls := 0
		small := Scenario(whole, func(s *recording.Scenario) bool { calls++; return pending(s) }, Budget{Calls: budget})
		if calls > budget {
			t.Errorf("%d calls, want at most %d", calls, budget)
		}
		if !pending(small) {
			t.Errorf("after %d calls it does not fail any more", budget)
		}
		if now := len(line(t, small)); now > previous {
			t.Errorf("after %d calls there are %d bytes, after fewer there were %d", budget, now, previous)
		} else {
			previous = now
		}
	}
	if previous > 700 {
		t.Errorf("%d bytes are left", previous)
	}
}

func TestTimeIsBounded(t *testing.T) {
	t.Parallel()
	began := time.Now()
	calls := 0
	small := Scenario(rich(t), func(s *recording.Scenario) bool {
		calls++
		time.Sleep(20 * time.Millisecond)
		return failures[0].fails(s)
	}, Budget{Time: 100 * time.Millisecond})
	if took := time.Since(began); took > 5*time.Second || calls > 6 {
		t.Errorf("%d calls took %v", calls, took)
	}
	if !failures[0].fails(small) {
		t.Error("does not fail any more")
	}
}

func TestAScenarioThatDoesNotFailStaysAsItIs(t *testing.T) {
	t.Parallel()
	whole := rich(t)
	calls := 0
	got := Scenario(whole, func(*recording.Scenario) bool { calls++; return false }, Budget{})
	if calls != 1 || !reflect.DeepEqual(got, whole) || got == whole {
		t.Errorf("%d calls; got %s", calls, line(t, got))
	}
}

func TestTheSameSearchComesToTheSame(t *testing.T) {
	t.Parallel()
	for _, test := range failures {
		first := line(t, Scenario(rich(t), test.fails, Budget{}))
		for range 3 {
			if again := line(t, Scenario(rich(t), test.fails, Budget{})); again != first {
				t.Errorf("%s: first %s\nthen %s", test.name, first, again)
			}
		}
	}
}

// A clone has nothing in common with what it is of: any change of one leaves the
// other as it was.
func TestClonesAreApart(t *testing.T) {
	t.Parallel()
	whole := rich(t)
	for _, r := range rules {
		for _, place := range slices.Backward(r(clone(whole))) {
			place()
		}
	}
	for i := range numbers(clone(whole)) {
		c := clone(whole)
		*numbers(c)[i].value = 77
	}
	shift(clone(whole), time.Hour)
	if !reflect.DeepEqual(whole, rich(t)) {
		t.Error("a change of a clone is one of the original")
	}
	if !reflect.DeepEqual(clone(whole), whole) {
		t.Error("a clone is not the same")
	}
}

// A test that says something else each time does not go on for ever.
func TestTheSearchEnds(t *testing.T) {
	t.Parallel()
	calls := 0
	Scenario(rich(t), func(*recording.Scenario) bool { calls++; return calls%3 > 0 }, Budget{})
	if calls > 100_000 {
		t.Errorf("%d calls", calls)
	}
}
