package main

import (
	"fmt"
	"os"

	"google.golang.org/protobuf/encoding/protojson"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	v1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster/podcache"
)

// savedList is a List of objects of any kind.
type savedList struct {
	metav1.TypeMeta `json:",inline"`
	Items           []any `json:"items"`
}

// add adds an object, which is a copy, with its kind.
func (l *savedList) add(kind *metav1.TypeMeta, apiVersion, name string, object any) {
	*kind = metav1.TypeMeta{APIVersion: apiVersion, Kind: name}
	l.Items = append(l.Items, object)
}

// saveSnapshot writes the snapshot to a file, for --dump. Of pods it writes only the fields
// that an explanation needs: no environment, no commands. The stages, which may be nil, become an annotation.
func saveSnapshot(name string, snapshot *kubernetes.Snapshot, stages *setpointv1.Stages) error {
	list := &savedList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}}
	hpa := *snapshot.Autoscaler
	hpa.ManagedFields, hpa.Annotations = nil, nil
	if stages != nil {
		hpa.Annotations = map[string]string{v1.StagesAnnotation: protojson.MarshalOptions{}.Format(stages)}
	}
	list.add(&hpa.TypeMeta, "autoscaling/v2", "HorizontalPodAutoscaler", &hpa)
	if snapshot.Scale != nil {
		scale := *snapshot.Scale
		list.add(&scale.TypeMeta, "autoscaling/v1", "Scale", &scale)
	}
	for _, pod := range snapshot.Pods {
		stripped, err := podcache.Strip(pod)
		if err != nil {
			return err
		}
		if pod, ok := stripped.(*corev1.Pod); ok {
			list.add(&pod.TypeMeta, "v1", "Pod", pod)
		}
	}
	for _, usage := range snapshot.PodMetrics {
		list.add(&usage.TypeMeta, "metrics.k8s.io/v1beta1", "PodMetrics", &usage)
	}
	for _, value := range snapshot.CustomMetrics {
		list.add(&value.TypeMeta, "custom.metrics.k8s.io/v1beta2", "MetricValue", &value)
	}
	for _, series := range snapshot.ExternalMetrics {
		value := series.ExternalMetricValue
		list.add(&value.TypeMeta, "external.metrics.k8s.io/v1beta1", "ExternalMetricValue", &value)
	}
	text, err := yaml.Marshal(list)
	if err != nil {
		return fmt.Errorf("--save: %w", err)
	}
	if err := os.WriteFile(name, text, 0o600); err != nil {
		return fmt.Errorf("--save: %w", err)
	}
	return nil
}
