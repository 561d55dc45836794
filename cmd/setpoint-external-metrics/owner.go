package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"
)

const (
	// apiService is the registration of the API; a cluster has one.
	apiService = "v1beta1.external.metrics.k8s.io"
	// lookEvery is how often is looked at whose it is, and lookTimeout how long that may take.
	lookEvery, lookTimeout = 30 * time.Second, 10 * time.Second
)

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// owner knows whose the API is. Providers of it replace each other without a word.
type owner struct {
	// service is that before this program, namespace/name.
	service     string
	apiServices dynamic.NamespaceableResourceInterface

	mu      sync.Mutex
	problem error // guarded by mu; why the API is not this program's
}

// errOthers means that another provider has the API.
var errOthers = errors.New("a cluster has one provider of external.metrics.k8s.io: use that one, or remove it and its APIService first")

// look returns an error where the API is another's, or can't be looked at. Nobody's is fine: the
// APIService may be made after this program.
func (o *owner) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	found, err := o.apiServices.Get(ctx, apiService, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read the APIService %s: %w", apiService, err)
	}
	if holder := holderOf(found); holder != o.service {
		return fmt.Errorf("the APIService %s is of %s, not of %s: %w", apiService, holder, o.service, errOthers)
	}
	return nil
}

// holderOf is the Service that an APIService names.
func holderOf(found *unstructured.Unstructured) string {
	namespace, _, _ := unstructured.NestedString(found.Object, "spec", "service", "namespace")
	name, _, _ := unstructured.NestedString(found.Object, "spec", "service", "name")
	if name == "" {
		return "the API server itself"
	}
	return namespace + "/" + name
}

// watch looks again and again. Once another has the API the program is not ready, and says so in
// its log.
func (o *owner) watch(ctx context.Context) {
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		err := o.look(ctx)
		if err != nil && !errors.Is(err, errOthers) {
			continue // the cluster is away: what was known stays
		}
		if before := o.set(err); (before == nil) != (err == nil) {
			if err != nil {
				klog.ErrorS(err, "another provider has taken the API")
			} else {
				klog.InfoS("the API is this program's again")
			}
		}
	}
}

func (o *owner) set(problem error) (before error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before, o.problem = o.problem, problem
	return before
}

// check is for readiness.
func (o *owner) check(*http.Request) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.problem
}
