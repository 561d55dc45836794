package scalecache_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
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

// rights are the permissions of an account, as reported by access reviews and as enforced.
type rights struct {
	mu sync.Mutex
	// may reports whether it may list and watch. Guarded by mu.
	may bool
	// unknown is the error of an access review. Guarded by mu.
	unknown error
	// served is the only version of deployments that the API server serves; empty: v1. Guarded by mu.
	served string
	// silent makes watches send no bookmarks. Guarded by mu.
	silent bool
	// busy makes the API server put off new watches. Guarded by mu.
	busy bool
	// asked and listed are the namespaces of reviews and lists. Guarded by mu.
	asked, listed []string
	// watches are the started watches. Guarded by mu.
	watches []*watch.RaceFreeFakeWatcher
}

// MayWatch implements scalecache.Access.
func (r *rights) MayWatch(_ context.Context, _ schema.GroupVersionResource, namespace string) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, namespace)
	return r.may && r.unknown == nil, r.unknown
}

// refusal is why a request is refused; nil: it is not. The caller holds the lock.
func (r *rights) refusal(action k8stesting.Action) error {
	switch {
	case !r.may:
		return apierrors.NewForbidden(deployments, "", errors.New("no rights"))
	case action.GetResource().Version != cmp.Or(r.served, "v1"):
		return apierrors.NewNotFound(deployments, "")
	}
	return nil
}

// meet refuses or allows a list.
func (r *rights) meet(action k8stesting.Action) (bool, runtime.Object, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listed = append(r.listed, action.GetNamespace())
	err := r.refusal(action)
	if err == nil && r.served != "" { // the fake has v1 only
		return true, &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []runtime.RawExtension{{Object: deployment("7")}}}, nil
	}
	return err != nil, nil, err
}

// watch starts a watch of bookmarks, or refuses it.
func (r *rights) watch(action k8stesting.Action) (bool, watch.Interface, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.refusal(action); err != nil {
		return true, nil, err
	}
	if r.busy {
		return true, nil, apierrors.NewTooManyRequests("later", 1)
	}
	w := watch.NewRaceFreeFake()
	r.watches = append(r.watches, w)
	r.bookmark(w)
	return true, w, nil
}

// bookmark sends one each minute.
func (r *rights) bookmark(w *watch.RaceFreeFakeWatcher) {
	time.AfterFunc(time.Minute, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if w.IsStopped() {
			return
		}
		if !r.silent {
			w.Action(watch.Bookmark, deployment("7"))
		}
		r.bookmark(w)
	})
}

// end ends the watches, as they do after some minutes; new ones are refused, or put off.
func (r *rights) end(busy bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.may, r.busy = busy, busy
	for _, w := range r.watches {
		w.Stop()
	}
}

func (r *rights) allow(may bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.may, r.busy = may, false
}

func (r *rights) counts() (asked, listed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asked), len(r.listed)
}

// servedMapper knows the version that the API server serves.
type servedMapper struct {
	meta.RESTMapper
	rights *rights
}

func (m *servedMapper) ResourceFor(of schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	m.rights.mu.Lock()
	defer m.rights.mu.Unlock()
	return of.GroupResource().WithVersion(cmp.Or(m.rights.served, "v1")), nil
}

// within runs a test in a bubble, with versions watched by an account of these permissions, and
// one deployment, shop/web.
func (r *rights) within(t *testing.T, namespaces []string, test func(t *testing.T, versions *scalecache.WatchedVersions)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scheme := fake.NewTestScheme()
		fatal.If(t, metav1.AddMetaToScheme(scheme))
		client := fake.NewSimpleMetadataClient(scheme, deployment("7"))
		client.PrependReactor("list", "deployments", r.meet)
		client.PrependWatchReactor("deployments", r.watch)
		mapper := meta.NewDefaultRESTMapper(nil)
		mapper.Add(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, meta.RESTScopeNamespace)
		ctx, cancel := context.WithCancel(context.Background())
		versions := scalecache.Watch(ctx, client, &servedMapper{mapper, r}, scalecache.WatchOptions{Namespaces: namespaces, Access: r})
		defer func() {
			cancel()
			versions.Wait()
		}()
		test(t, versions)
	})
}

// after advances the time, with one lookup per reconcile as by a cache of scales, and returns
// whether the last one was answered.
func after(versions *scalecache.WatchedVersions, d time.Duration) bool {
	for range int(d / (15 * time.Second)) {
		versions.ResourceVersion(deployments, "shop", "web")
		time.Sleep(15 * time.Second)
		synctest.Wait()
	}
	_, ok := versions.ResourceVersion(deployments, "shop", "web")
	return ok
}

func TestNothingIsWatchedWithoutRights(t *testing.T) {
	t.Parallel()
	r := &rights{}
	r.within(t, nil, func(t *testing.T, versions *scalecache.WatchedVersions) {
		if after(versions, 24*time.Hour) {
			t.Error("it knows a version that it can't have read")
		}
		asked, listed := r.counts()
		if listed > 0 {
			t.Errorf("%d lists that are refused", listed)
		}
		// Pauses of 1, 2, 4 … 60 minutes.
		if asked < 20 || asked > 32 {
			t.Errorf("asked %d times in a day whether it may", asked)
		}
		r.allow(true)
		if !after(versions, time.Hour+time.Minute) {
			t.Error("rights that were given are not used after an hour")
		}
	})
}

// An account without access reviews retries, but not several times a minute for ever.
func TestRefusedListsGetFewer(t *testing.T) {
	t.Parallel()
	r := &rights{unknown: errors.New("no reviews here")}
	r.within(t, nil, func(t *testing.T, versions *scalecache.WatchedVersions) {
		if after(versions, 24*time.Hour) {
			t.Error("it knows a version that it can't have read")
		}
		_, first := r.counts()
		if first == 0 || first > 64 {
			t.Errorf("%d refused lists in a day", first)
		}
		after(versions, 24*time.Hour)
		if _, second := r.counts(); second-first > 48 {
			t.Errorf("%d refused lists on the second day", second-first)
		}
	})
}

func TestRightsThatAreWithdrawnEndAWatch(t *testing.T) {
	t.Parallel()
	r := &rights{may: true}
	r.within(t, []string{"shop"}, func(t *testing.T, versions *scalecache.WatchedVersions) {
		if !after(versions, time.Minute) {
			t.Error("what it may watch is not known")
		}
		if _, listed := r.counts(); listed != 1 {
			t.Errorf("listed %d times", listed)
		}
		r.end(false)
		if after(versions, time.Minute) {
			t.Error("what is watched no more is known")
		}
		after(versions, 24*time.Hour)
		if _, listed := r.counts(); listed > 2 {
			t.Errorf("listed %d times", listed)
		}
		r.allow(true)
		if !after(versions, time.Hour+2*time.Minute) {
			t.Error("rights that were given again are not used after an hour")
		}
	})
}

// What is watched no more is out of date, also while the library tries again by itself.
func TestVersionsWhoseWatchIsPutOff(t *testing.T) {
	t.Parallel()
	r := &rights{may: true}
	r.within(t, nil, func(t *testing.T, versions *scalecache.WatchedVersions) {
		after(versions, time.Minute)
		r.end(true)
		for range 60 {
			if after(versions, 15*time.Second) {
				t.Fatal("what is watched no more is known")
			}
		}
		r.allow(true)
		if !after(versions, 5*time.Minute) {
			t.Error("what is watched again is not known")
		}
	})
}

// A watch that is open and says nothing may miss changes, as behind a proxy that passes nothing on.
func TestVersionsWhoseWatchIsSilent(t *testing.T) {
	t.Parallel()
	r := &rights{may: true}
	r.within(t, nil, func(t *testing.T, versions *scalecache.WatchedVersions) {
		if !after(versions, time.Hour) {
			t.Error("what is watched, and does not change, is not known")
		}
		r.mu.Lock()
		r.silent = true
		r.mu.Unlock()
		for range 60 {
			if after(versions, 2*time.Minute+15*time.Second) {
				t.Fatal("what a silent watch said is known after two minutes")
			}
		}
		r.mu.Lock()
		r.silent = false
		r.mu.Unlock()
		if !after(versions, time.Minute+15*time.Second) {
			t.Error("what is watched again is not known")
		}
		if _, listed := r.counts(); listed != 1 {
			t.Errorf("listed %d times", listed)
		}
	})
}

// A CustomResourceDefinition may cease to serve the version that is watched.
func TestTheWatchedVersionIsServedNoMore(t *testing.T) {
	t.Parallel()
	r := &rights{may: true, served: "v1beta1"}
	r.within(t, nil, func(t *testing.T, versions *scalecache.WatchedVersions) {
		if !after(versions, time.Minute) {
			t.Error("what it may watch is not known")
		}
		r.mu.Lock()
		r.served = "v1"
		r.mu.Unlock()
		r.end(false) // the watch is refused then
		r.allow(true)
		if !after(versions, 10*time.Minute) {
			t.Error("the version that is served now is not watched")
		}
	})
}

// An agent of some namespaces has permissions in these only.
func TestOnlyTheNamespacesNamedAreWatched(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rule       string
		namespaces []string
		want       []string
	}{
		{"none named: all at once", nil, []string{""}},
		{"named: each by itself", []string{"shop", "bank"}, []string{"bank", "shop"}},
	} {
		r := &rights{may: true}
		r.within(t, tt.namespaces, func(t *testing.T, versions *scalecache.WatchedVersions) {
			if !after(versions, time.Minute) {
				t.Errorf("%s: the version is not known", tt.rule)
			}
			versions.ResourceVersion(deployments, "bank", "web")
			synctest.Wait()
			r.mu.Lock()
			defer r.mu.Unlock()
			slices.Sort(r.listed)
			slices.Sort(r.asked)
			if !slices.Equal(r.listed, tt.want) || !slices.Equal(r.asked, tt.want) {
				t.Errorf("%s: asked about %q, listed %q, want %q", tt.rule, r.asked, r.listed, tt.want)
			}
		})
	}
}
