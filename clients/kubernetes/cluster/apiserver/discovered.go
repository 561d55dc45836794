package apiserver

import (
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
	"k8s.io/metrics/pkg/apis/custom_metrics"
	metricsclient "k8s.io/metrics/pkg/client/custom_metrics"
)

const (
	// missAge is the minimum age of discovery before an unknown kind makes it repeat: a new
	// kind is found soon, and a reference to one that never existed costs little.
	missAge = 10 * time.Second
	// discoveryAge is the maximum age of discovery.
	discoveryAge = 10 * time.Minute
)

// discovered maps kinds to resources by the API server's discovery. It words misses as
// upstream's mapper does.
type discovered struct {
	*restmapper.DeferredDiscoveryRESTMapper
	groups discovery.CachedDiscoveryInterface
	now    func() time.Time

	mu sync.Mutex
	// since is when the current discovery began. Guarded by mu.
	since time.Time
	// resources of the kinds that the current discovery was asked for: the mapper computes them each
	// time, and each reconcile asks. Guarded by mu.
	resources map[schema.GroupKind][]*meta.RESTMapping
}

var _ meta.ResettableRESTMapper = (*discovered)(nil)

func newDiscovered(client discovery.DiscoveryInterface) *discovered {
	groups := memory.NewMemCacheClient(client)
	return &discovered{
		DeferredDiscoveryRESTMapper: restmapper.NewDeferredDiscoveryRESTMapper(groups),
		groups:                      groups,
		now:                         time.Now,
		since:                       time.Now(),
		resources:                   map[schema.GroupKind][]*meta.RESTMapping{},
	}
}

// Reset implements meta.ResettableRESTMapper: it drops the discovery.
func (d *discovered) Reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reset()
}

// reset drops the discovery. The caller holds d.mu.
func (d *discovered) reset() {
	d.since, d.resources = d.now(), map[schema.GroupKind][]*meta.RESTMapping{}
	d.DeferredDiscoveryRESTMapper.Reset()
}

// renew drops the discovery if it is older than age, and reports whether it did.
func (d *discovered) renew(age time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now().Sub(d.since) < age {
		return false
	}
	d.reset()
	return true
}

// RESTMappings returns the resources of a kind, looking again when there are none.
func (d *discovered) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	d.renew(discoveryAge)
	d.mu.Lock()
	resources := d.resources
	mappings := resources[kind]
	d.mu.Unlock()
	if mappings != nil && len(versions) == 0 {
		return mappings, nil
	}
	mappings, err := d.DeferredDiscoveryRESTMapper.RESTMappings(kind, versions...)
	if meta.IsNoMatchError(err) && d.renew(missAge) {
		return d.DeferredDiscoveryRESTMapper.RESTMappings(kind, versions...)
	}
	if err == nil && len(versions) == 0 {
		d.mu.Lock()
		resources[kind] = mappings // of the discovery that it was asked for, which may have been dropped
		d.mu.Unlock()
	}
	return mappings, err
}

// RESTMapping returns the preferred resource of a kind, looking again when there
// is none.
func (d *discovered) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	d.renew(discoveryAge)
	mapping, err := d.DeferredDiscoveryRESTMapper.RESTMapping(kind, versions...)
	if meta.IsNoMatchError(err) && d.renew(missAge) {
		return d.DeferredDiscoveryRESTMapper.RESTMapping(kind, versions...)
	}
	return mapping, err
}

// asServed asks, and asks again by a new discovery if the API server has no such path: a definition or an adapter may
// cease to serve the version that the last discovery had.
func asServed[T any](d *discovered, ask func() (T, error)) (T, error) {
	answer, err := ask()
	if apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) && d.renew(missAge) {
		return ask()
	}
	return answer, err
}

// customMetricsVersion returns the version of the custom metrics API to ask, in
// upstream's order and words.
func (d *discovered) customMetricsVersion() (schema.GroupVersion, error) {
	d.renew(discoveryAge)
	version, err := preferredVersion(d.groups)
	if err != nil && d.renew(missAge) {
		return preferredVersion(d.groups)
	}
	return version, err
}

func preferredVersion(client discovery.ServerGroupsInterface) (schema.GroupVersion, error) {
	groups, err := client.ServerGroups()
	if err != nil {
		return schema.GroupVersion{}, err
	}
	for i := range groups.Groups {
		group := &groups.Groups[i]
		if group.Name != custom_metrics.GroupName {
			continue
		}
		candidates := []string{group.PreferredVersion.GroupVersion}
		for _, version := range group.Versions {
			candidates = append(candidates, version.GroupVersion)
		}
		for _, candidate := range candidates {
			for _, known := range metricsclient.MetricVersions {
				if candidate == known.String() {
					return known, nil
				}
			}
		}
		return schema.GroupVersion{}, fmt.Errorf("no known available metric versions found")
	}
	return schema.GroupVersion{}, fmt.Errorf("no custom metrics API (%s) registered", custom_metrics.GroupName)
}
