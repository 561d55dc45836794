package scalecache

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster"
)

const (
	// scaleAge bounds how long a scale is reused (randomly, from half of it up), in case a
	// watch missed a change. It exceeds the duration of a watch, which the API server ends
	// after at most ten minutes. The spread keeps scales that were read together, as at a
	// start, from being read together again.
	scaleAge = time.Hour
	// scaleSweep is how often expired scales are dropped.
	scaleSweep = time.Minute
)

// Versions returns the last watched resource versions of objects. It must be safe for
// concurrent use.
type Versions interface {
	// ResourceVersion of an object. Not ok: it is not watched, or unknown.
	ResourceVersion(resource schema.GroupResource, namespace, name string) (version string, ok bool)
}

// Cache reads a scale again only if its object has changed since: a scale's resource version is
// that of its object. A result may be as stale as the watch; the API server refuses a write
// with an outdated version. It is safe for concurrent use.
type Cache struct {
	live     cluster.Scales
	versions Versions

	mu sync.Mutex
	// scales by object. Guarded by mu.
	scales map[objectKey]cachedScale
	// swept is when expired ones were last dropped. Guarded by mu.
	swept time.Time
}

var _ cluster.Scales = (*Cache)(nil)

type objectKey struct {
	resource        schema.GroupResource
	namespace, name string
}

type cachedScale struct {
	scale *autoscalingv1.Scale
	// watched is the version of the object that was known when the scale was read or written.
	// While that is unchanged, the scale is the newer one.
	watched string
	// until is when it expires.
	until time.Time
}

// New returns a cache of live's scales.
func New(live cluster.Scales, versions Versions) *Cache {
	return &Cache{
		live: live, versions: versions,
		scales: map[objectKey]cachedScale{}, swept: time.Now(),
	}
}

// Get returns the scale of an object.
func (c *Cache) Get(ctx context.Context, resource schema.GroupResource, namespace, name string) (*autoscalingv1.Scale, error) {
	scale, _, err := c.GetCached(ctx, resource, namespace, name)
	return scale, err
}

// GetCached returns the scale of an object, and whether it needed no request.
func (c *Cache) GetCached(ctx context.Context, resource schema.GroupResource, namespace, name string) (scale *autoscalingv1.Scale, cached bool, err error) {
	key := objectKey{resource, namespace, name}
	version, watched := c.versions.ResourceVersion(resource, namespace, name)
	if watched {
		if scale := c.current(key, version); scale != nil {
			return scale, true, nil
		}
	}
	scale, err = c.live.Get(ctx, resource, namespace, name)
	if err != nil || !watched {
		c.drop(key)
		return scale, false, err
	}
	c.put(key, scale, version)
	return scale, false, nil
}

// Update writes a scale and caches the result.
func (c *Cache) Update(ctx context.Context, resource schema.GroupResource, scale *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
	key := objectKey{resource, scale.Namespace, scale.Name}
	version, watched := c.versions.ResourceVersion(resource, scale.Namespace, scale.Name)
	updated, err := c.live.Update(ctx, resource, scale)
	if err != nil || !watched {
		// Whatever the reason, the cached scale may be out of date.
		c.drop(key)
		return updated, err
	}
	c.put(key, updated, version)
	return updated, nil
}

// current returns the cached scale, nil if the object has changed since.
func (c *Cache) current(key objectKey, version string) *autoscalingv1.Scale {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept, ok := c.scales[key]
	if !ok || !time.Now().Before(kept.until) {
		return nil
	}
	if version != kept.scale.ResourceVersion && version != kept.watched {
		return nil
	}
	return kept.scale
}

func (c *Cache) put(key objectKey, scale *autoscalingv1.Scale, watched string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep()
	c.scales[key] = cachedScale{scale: scale, watched: watched, until: time.Now().Add(scaleAge/2 + rand.N(scaleAge/2))}
}

func (c *Cache) drop(key objectKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.scales, key)
}

// sweep drops expired scales. The caller holds c.mu.
func (c *Cache) sweep() {
	if time.Since(c.swept) < scaleSweep {
		return
	}
	c.swept = time.Now()
	for key, kept := range c.scales {
		if !time.Now().Before(kept.until) {
			delete(c.scales, key)
		}
	}
}
