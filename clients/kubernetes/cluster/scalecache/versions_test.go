package scalecache_test

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster/scalecache"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

var deployments = schema.GroupResource{Group: "apps", Resource: "deployments"}

// watching returns versions over a fake cluster with one deployment, and stops them.
func watching(t *testing.T, arrange func(*fake.FakeMetadataClient)) (*scalecache.WatchedVersions, *fake.FakeMetadataClient) {
	t.Helper()
	scheme := fake.NewTestScheme()
	fatal.If(t, metav1.AddMetaToScheme(scheme))
	client := fake.NewSimpleMetadataClient(scheme, deployment("7"))
	if arrange != nil {
		arrange(client)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, meta.RESTScopeNamespace)
	ctx, cancel := context.WithCancel(context.Background())
	versions := scalecache.Watch(ctx, client, mapper, scalecache.WatchOptions{})
	t.Cleanup(func() {
		cancel()
		versions.Wait()
		if _, ok := versions.ResourceVersion(schema.GroupResource{Group: "apps", Resource: "statefulsets"}, "shop", "web"); ok {
			t.Error("a watch was begun after the end")
		}
	})
	return versions, client
}

func deployment(version string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", ResourceVersion: version},
	}
}

// eventually waits until the version of the deployment is as wanted; empty: unknown.
func eventually(t *testing.T, versions *scalecache.WatchedVersions, want string) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		got, ok := versions.ResourceVersion(deployments, "shop", "web")
		if got == want && ok == (want != "") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %q, %v, want %q", got, ok, want)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestVersionsFollowTheWatch(t *testing.T) {
	t.Parallel()
	versions, client := watching(t, nil)
	eventually(t, versions, "7")
	resource := deployments.WithVersion("v1")
	if _, err := client.Resource(resource).Namespace("shop").(fake.MetadataClient).UpdateFake(deployment("8"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, versions, "8")
	for _, name := range []string{"", "other"} {
		if version, ok := versions.ResourceVersion(deployments, "shop", name); ok {
			t.Errorf("%q: got %s", name, version)
		}
	}
	fatal.If(t, client.Resource(resource).Namespace("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	eventually(t, versions, "")
}

func TestVersionsOfAnUnknownResource(t *testing.T) {
	t.Parallel()
	versions, _ := watching(t, nil)
	if version, ok := versions.ResourceVersion(schema.GroupResource{Group: "example.com", Resource: "widgets"}, "shop", "web"); ok {
		t.Errorf("got %s", version)
	}
}

// Versions are not used after their watch failed.
func TestVersionsWhoseWatchFails(t *testing.T) {
	t.Parallel()
	lists := make(chan struct{}, 1000)
	versions, _ := watching(t, func(client *fake.FakeMetadataClient) {
		client.PrependReactor("list", "deployments", func(k8stesting.Action) (bool, runtime.Object, error) {
			lists <- struct{}{}
			return false, nil, nil
		})
		client.PrependWatchReactor("deployments", func(k8stesting.Action) (bool, watch.Interface, error) {
			return true, nil, apierrors.NewInternalError(errors.New("oops"))
		})
	})
	versions.ResourceVersion(deployments, "shop", "web")
	for range 2 { // the second comes after the watch failed
		<-lists
	}
	if version, ok := versions.ResourceVersion(deployments, "shop", "web"); ok {
		t.Errorf("got %s", version)
	}
}
