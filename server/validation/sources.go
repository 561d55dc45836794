package validation

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation/field"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

func (c *checker) object(p *field.Path, object *setpointv1.ObjectMetricSource) {
	c.reference(p.Child("describedObject"), object.GetDescribedObject(), true)
	c.identifier(p.Child("metric"), object.GetMetric())
	target, at := object.GetTarget(), p.Child("target")
	c.target(at, target)
	if !hasValue(target) && !hasAverageValue(target) {
		c.required(at.Child("averageValue"), "must set either a target value or averageValue")
	}
}

func (c *checker) external(p *field.Path, external *setpointv1.ExternalMetricSource) {
	c.identifier(p.Child("metric"), external.GetMetric())
	target, at := external.GetTarget(), p.Child("target")
	c.target(at, target)
	switch total, average := hasValue(target), hasAverageValue(target); {
	case !total && !average:
		c.required(at.Child("averageValue"), "must set either a target value for metric or a per-pod target")
	case total && average:
		c.forbidden(at.Child("value"), "may not set both a target value for metric and a per-pod target")
	}
	c.fallback(p.Child("fallback"), external.GetFallback())
}

// leastFailure is KEP-5679's least failureDurationSeconds, mostFailure that of stages.fallbacks.
const leastFailure, mostFailure = 180, 3600

// fallback checks what no release of the API server knows yet, by KEP-5679.
func (c *checker) fallback(p *field.Path, f *setpointv1.ExternalMetricFallback) {
	if f == nil {
		return
	}
	if s := f.FailureDurationSeconds; s != nil && (*s < leastFailure || *s > mostFailure) {
		c.invalid(p.Child("failureDurationSeconds"), *s, fmt.Sprintf("must be between %d and %d (stages.fallbacks may wait for less)", leastFailure, mostFailure))
	}
	if f.GetReplicas() <= 0 {
		c.invalid(p.Child("replicas"), f.GetReplicas(), "must be greater than 0")
	}
}

func (c *checker) pods(p *field.Path, pods *setpointv1.PodsMetricSource) {
	c.identifier(p.Child("metric"), pods.GetMetric())
	target, at := pods.GetTarget(), p.Child("target")
	c.target(at, target)
	if !hasAverageValue(target) {
		c.required(at.Child("averageValue"), "must specify a positive target averageValue")
	}
}

func (c *checker) resource(p *field.Path, resource *setpointv1.ResourceMetricSource) {
	// Any name is valid, unlike that of a container's resource.
	if resource.GetName() == "" {
		c.required(p.Child("name"), "must specify a resource name")
	}
	c.resourceTarget(p.Child("target"), resource.GetTarget())
}

func (c *checker) containerResource(p *field.Path, resource *setpointv1.ContainerResourceMetricSource) {
	if resource.GetName() == "" {
		c.required(p.Child("name"), "must specify a resource name")
	} else {
		c.containerResourceName(p.Child("name"), resource.GetName())
	}
	c.containerName(p.Child("container"), resource.GetContainer())
	c.resourceTarget(p.Child("target"), resource.GetTarget())
}

func (c *checker) containerName(p *field.Path, name string) {
	if name == "" {
		c.required(p, "must specify a container")
		return
	}
	for _, detail := range content.IsDNS1123Label(name) {
		// The API server's own check of containers has these words, but its package would add
		// networking and logging to the playground, too.
		c.invalid(p, name, strings.Replace(detail, "63 bytes", "63 characters", 1))
	}
}

// identifier checks a metric's name. It does not check the selector: the API server
// leaves it to the controller, which reports it in a condition.
func (c *checker) identifier(p *field.Path, id *setpointv1.MetricIdentifier) {
	c.pathSegment(p.Child("name"), id.GetName(), "must specify a metric name")
}
