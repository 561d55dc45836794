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
	// lookEvery is the interval of checks who owns the API, and lookTimeout the timeout of one.
	lookEvery, lookTimeout = 30 * time.Second, 10 * time.Second
)

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// owner knows the owner of the API. Its providers replace each other silently.
type owner struct {
	// service is that before this program, namespace/name.
	service     string
	apiServices dynamic.NamespaceableResourceInterface

	mu      sync.Mutex
	problem error // guarded by mu; why the API is not this program's
}

// errOthers means that another provider has the API.
var errOthers = errors.New("a cluster has one provider of external.metrics.k8s.io: use that one, or remove it and its APIService first")

// look returns an error if another provider owns the API, or if the check failed. No owner is
// fine: the APIService may be created after this program starts.
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
		return fmt.Errorf("the APIService %s belongs to %s, not to %s: %w", apiService, holder, o.service, errOthers)
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

// watch repeats the check. Once another provider owns the API the program is not ready, and
// logs it.
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
			continue // the cluster is away: the last result stays
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
