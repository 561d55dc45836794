package testserver

import (
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/recommender"
)

func milliText(milli int64) string { return fmt.Sprintf("%dm", milli) }

// RequestOf is a simulation's input as an agent sends it.
func RequestOf(target string, spec *autoscalingv2.HorizontalPodAutoscalerSpec, in *recommender.Input) *setpointv1.RecommendRequest {
	req := &setpointv1.RecommendRequest{Target: target, Spec: kubernetes.SpecToProto(spec), Scale: &setpointv1.Scale{SpecReplicas: in.Scale.SpecReplicas, StatusReplicas: &in.Scale.StatusReplicas}}
	for i := range in.Pods {
		p := &in.Pods[i]
		pod := &setpointv1.Pod{Name: p.Name, Deleting: p.Deleting, Phase: "Pending", Ready: &setpointv1.PodReadyCondition{Status: "False", LastTransitionTime: timestamppb.New(p.ReadyTransition)}}
		if p.Phase == recommender.PhaseRunning {
			pod.Phase, pod.StartTime = "Running", timestamppb.New(p.StartTime)
		}
		if p.Ready == recommender.ReadyTrue {
			pod.Ready.Status = "True"
		}
		for _, c := range p.Containers {
			to := &setpointv1.Container{Name: c.Name, Requests: map[string]string{}}
			for _, r := range c.Requests {
				to.Requests[r.Resource] = milliText(r.Quantity.Milli())
			}
			pod.Containers = append(pod.Containers, to)
		}
		req.Pods = append(req.Pods, pod)
	}
	for i := range in.PodMetrics {
		m := &in.PodMetrics[i]
		sample := &setpointv1.PodMetrics{Pod: m.Pod, Timestamp: timestamppb.New(m.Timestamp), WindowSeconds: m.Window.Seconds()}
		for _, c := range m.Containers {
			to := &setpointv1.ContainerMetrics{Name: c.Name, Usage: map[string]string{}}
			for _, u := range c.Usage {
				to.Usage[u.Resource] = milliText(u.Milli)
			}
			sample.Containers = append(sample.Containers, to)
		}
		req.PodMetrics = append(req.PodMetrics, sample)
	}
	for i := range in.Spec.Metrics {
		m := &in.Spec.Metrics[i]
		for _, v := range in.Readings[i].Values {
			switch id := (&setpointv1.MetricIdentifier{Name: m.Metric.Name}); m.Type {
			case recommender.PodsMetric:
				req.CustomMetrics = append(req.CustomMetrics, &setpointv1.CustomMetric{Metric: id, DescribedObject: &setpointv1.CrossVersionObjectReference{Kind: "Pod", Name: v.Pod, ApiVersion: "v1"}, Value: milliText(v.Milli)})
			case recommender.ExternalMetric:
				req.ExternalMetrics = append(req.ExternalMetrics, &setpointv1.ExternalMetric{Metric: id, Value: milliText(v.Milli)})
			default:
			}
		}
	}
	return req
}
