package apiserver

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/scale"
	"k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	customscheme "k8s.io/metrics/pkg/client/custom_metrics/scheme"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster"
)

// discoveryTimeout bounds a request of discovery, whose client takes no context.
const discoveryTimeout = 30 * time.Second

// Client reads and writes a cluster, each call a request of its own over one pool
// of connections. It is safe for concurrent use and implements cluster.Scales,
// cluster.Pods and cluster.Metrics.
type Client struct {
	discovered *discovered
	metadata   metadata.Interface
	reviews    authorizationclient.SelfSubjectAccessReviewInterface
	scales     scale.ScalesGetter
	core       corev1client.CoreV1Interface
	resource   resourceclient.MetricsV1beta1Interface
	custom     rest.Interface
	external   rest.Interface
}

var (
	_ cluster.Scales  = (*Client)(nil)
	_ cluster.Pods    = (*Client)(nil)
	_ cluster.Metrics = (*Client)(nil)
)

// New returns a client for the cluster of config, which it does not change. A QPS of 0 in
// config disables the client's rate limit.
func New(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	config.QPS = cmp.Or(config.QPS, -1)
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	pool, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to the cluster: %w", err)
	}
	b := &clientBuilder{config: config, pool: pool}
	clients := b.build()
	if b.err != nil {
		return nil, fmt.Errorf("cannot connect to the cluster: %w", b.err)
	}
	return clients, nil
}

// Mapper finds resources by kind in the API server's discovery. For an unknown kind it reads
// discovery again, at most every ten seconds.
func (c *Client) Mapper() meta.ResettableRESTMapper { return c.discovered }

// Metadata reads the metadata of objects of any kind.
func (c *Client) Metadata() metadata.Interface { return c.metadata }

// clientBuilder builds clients over one connection pool and keeps the first error.
type clientBuilder struct {
	config *rest.Config
	pool   *http.Client
	err    error
}

func (b *clientBuilder) build() *Client {
	bounded := *b.pool
	bounded.Timeout = discoveryTimeout
	discoveryClient, err := discovery.NewDiscoveryClientForConfigAndClient(b.config, &bounded)
	b.note(err)
	metadataClient, err := metadata.NewForConfigAndClient(metadata.ConfigFor(b.config), b.pool)
	b.note(err)
	core, err := corev1client.NewForConfigAndClient(b.preferring(runtime.ContentTypeProtobuf), b.pool)
	b.note(err)
	authorization, err := authorizationclient.NewForConfigAndClient(b.preferring(runtime.ContentTypeJSON), b.pool)
	b.note(err)
	resource, err := resourceclient.NewForConfigAndClient(b.preferring(runtime.ContentTypeProtobuf), b.pool)
	b.note(err)
	c := &Client{metadata: metadataClient, core: core, resource: resource}
	c.custom = b.rest(v1beta2.SchemeGroupVersion, customscheme.Codecs.WithoutConversion())
	c.external = b.rest(externalv1beta1.SchemeGroupVersion, clientscheme.Codecs.WithoutConversion())
	scales := b.rest(schema.GroupVersion{}, scale.NewScaleConverter().Codecs().WithoutConversion())
	if b.err != nil {
		return nil
	}
	c.reviews = authorization.SelfSubjectAccessReviews()
	c.discovered = newDiscovered(discoveryClient)
	// The resolver caches its results.
	c.scales = scale.New(scales, c.discovered, dynamic.LegacyAPIPathResolverFunc,
		scale.NewDiscoveryScaleKindResolver(discoveryClient))
	return c
}

func (b *clientBuilder) note(err error) {
	if b.err == nil {
		b.err = err
	}
}

// preferring requests a content type but also accepts JSON: lists of many pods are a fraction
// of the size, but not every API server supports it.
func (b *clientBuilder) preferring(contentType string) *rest.Config {
	config := rest.CopyConfig(b.config)
	config.AcceptContentTypes = contentType + "," + runtime.ContentTypeJSON
	config.ContentType = runtime.ContentTypeJSON
	return config
}

// rest returns a client of one API group that speaks JSON.
func (b *clientBuilder) rest(version schema.GroupVersion, serializer runtime.NegotiatedSerializer) rest.Interface {
	config := rest.CopyConfig(b.config)
	config.APIPath = "/apis"
	config.GroupVersion = &version
	config.NegotiatedSerializer = serializer
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.RESTClientForConfigAndClient(config, b.pool)
	b.note(err)
	return client
}
