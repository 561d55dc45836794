package validation

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// containerResources are the resources that any container can request.
var containerResources = []string{"cpu", "memory", "ephemeral-storage"}

// quotaResources are the further resources that Kubernetes names without a domain; only
// quotas have them.
var quotaResources = []string{
	"requests.cpu", "requests.memory", "requests.ephemeral-storage",
	"limits.cpu", "limits.memory", "limits.ephemeral-storage",
	"pods", "resourcequotas", "services", "replicationcontrollers", "secrets",
	"configmaps", "persistentvolumeclaims", "storage", "requests.storage",
	"services.nodeports", "services.loadbalancers",
}

const (
	hugePagesPrefix = "hugepages-"
	requestsPrefix  = "requests."
	nativeDomain    = "kubernetes.io/"
)

// containerResourceName checks the name of a resource of a container: a standard one,
// or one with a domain that follows the rules of extended resources.
func (c *checker) containerResourceName(p *field.Path, name string) {
	qualified := c.qualifiedName(p, name)
	if strings.Contains(name, "/") {
		if !strings.Contains(name, nativeDomain) && !isExtendedResource(name) {
			c.invalid(p, enum(name), "doesn't follow extended resource name standard")
		}
		return
	}
	if qualified && !isStandardResource(name) {
		c.invalid(p, enum(name), "must be a standard resource type or fully qualified")
	}
	if !isContainerResource(name) {
		c.invalid(p, enum(name), "must be a standard resource for containers")
	}
}

// qualifiedName checks a name with an optional domain and reports whether it is
// one.
func (c *checker) qualifiedName(p *field.Path, name string) bool {
	details := content.IsLabelKey(name)
	for _, detail := range details {
		c.invalid(p, name, detail)
	}
	return len(details) == 0
}

func isContainerResource(name string) bool {
	return slices.Contains(containerResources, name) || strings.HasPrefix(name, hugePagesPrefix)
}

func isStandardResource(name string) bool {
	return isContainerResource(name) || slices.Contains(quotaResources, name) ||
		strings.HasPrefix(name, requestsPrefix+hugePagesPrefix)
}

// isExtendedResource reports whether a name with a domain other than Kubernetes' own is
// still a valid name with a quota's prefix "requests.".
func isExtendedResource(name string) bool {
	return !strings.HasPrefix(name, requestsPrefix) && len(content.IsLabelKey(requestsPrefix+name)) == 0
}
