package stored_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// engine is a store with a part that can be made to fail, or to be overtaken.
type engine struct {
	*memory.Store
	// before is called before a version is deleted; nil: nothing is.
	before func()
	// unreadable are keys whose records can't be read.
	unreadable map[store.Key]error
}

func (e *engine) Part(part store.Part, ttl time.Duration) (store.PartStore, error) {
	records, err := e.Store.Part(part, ttl)
	return &partStore{records, e}, err
}

type partStore struct {
	store.PartStore
	engine *engine
}

func (p *partStore) DeleteVersion(ctx context.Context, key store.Key, version store.Version) (store.SwapResult, error) {
	if p.engine.before != nil {
		p.engine.before()
	}
	return p.PartStore.DeleteVersion(ctx, key, version)
}

func (p *partStore) LoadBatch(ctx context.Context, keys []store.Key) ([]store.Record, error) {
	records, err := p.PartStore.LoadBatch(ctx, keys)
	if err != nil || p.engine.unreadable == nil {
		return records, err
	}
	failed := make(store.BatchError, len(keys))
	for i, key := range keys {
		failed[i] = p.engine.unreadable[key]
	}
	return records, failed
}

// open returns targets, and a list of the calls of Left.
func open(t *testing.T, e *engine) (*stored.Targets, *[]string) {
	t.Helper()
	e.Store = memory.New(memory.Options{})
	t.Cleanup(func() { _ = e.Close() })
	if _, err := e.Part(store.Fleets, 0); err != nil {
		t.Fatal(err)
	}
	var left []string
	targets, err := stored.New(e, stored.Options{Left: func(part store.Part, key store.Key) { left = append(left, fmt.Sprint(part, " ", key.Target)) }})
	fatal.If(t, err)
	return targets, &left
}

func keyOf(target string) store.Key {
	return store.Key{Cluster: "demo", Namespace: "shop", Target: target}
}

func set(t *testing.T, targets *stored.Targets, target string) *setpointv1.TargetSpec {
	t.Helper()
	spec, _, err := targets.SetSpec(t.Context(), keyOf(target), &setpointv1.TargetSpec{UpdatedBy: "another", Spec: &setpointv1.HorizontalPodAutoscalerSpec{MaxReplicas: 5}}, "somebody")
	if err != nil || spec.GetUpdatedBy() != "somebody" || spec.GetHash() == "" {
		t.Fatalf("SetSpec = %v, %v", spec, err)
	}
	return spec
}

func TestADeleteTakesNoSpecThatItWasNotAskedFor(t *testing.T) {
	e := &engine{}
	targets, left := open(t, e)
	first := set(t, targets, "web")
	var second *setpointv1.TargetSpec
	e.before = func() { second = set(t, targets, "web") }
	if err := targets.DeleteSpec(t.Context(), keyOf("web"), first.GetEtag()); !errors.Is(err, stored.ErrChanged) {
		t.Errorf("a delete that was overtaken: %v, want ErrChanged", err)
	}
	e.before = nil
	if got, err := targets.Spec(t.Context(), keyOf("web")); err != nil || got.GetEtag() != second.GetEtag() {
		t.Errorf("after it: %v, %v, want the spec stored in between", got, err)
	}
	if len(*left) != 0 {
		t.Errorf("%q left, though nothing was deleted", *left)
	}
	if err := targets.DeleteSpec(t.Context(), keyOf("web"), "no etag"); !errors.Is(err, stored.ErrChanged) {
		t.Errorf("an invalid etag: %v, want ErrChanged", err)
	}
}

// A repeated deletion, after a lost reply, finds nothing.
func TestADeleteThatIsTriedAgainFindsNothing(t *testing.T) {
	targets, left := open(t, &engine{})
	spec := set(t, targets, "web")
	if _, err := targets.Report(t.Context(), keyOf("web"), &setpointv1.ReportObservationRequest{Scale: &setpointv1.Scale{SpecReplicas: 1}}); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, targets.DeleteSpec(t.Context(), keyOf("web"), spec.GetEtag()))
	if want := []string{"spec web", "observation web"}; !slices.Equal(*left, want) {
		t.Errorf("%q left, want %q: clusters are counted by it", *left, want)
	}
	for range 2 {
		if err := targets.DeleteSpec(t.Context(), keyOf("web"), spec.GetEtag()); !errors.Is(err, stored.ErrNoSpec) {
			t.Errorf("again: %v, want ErrNoSpec", err)
		}
		if err := targets.DeleteSpec(t.Context(), keyOf("web"), ""); !errors.Is(err, stored.ErrNoSpec) {
			t.Errorf("again, any version: %v, want ErrNoSpec", err)
		}
	}
	if keys, err := targets.Specs().List(t.Context(), store.Filter{}, store.Key{}, 10); err != nil || len(keys) != 0 {
		t.Errorf("listed: %v, %v", keys, err)
	}
}

func TestASpecThatCanNotBeReadIsListedByItsName(t *testing.T) {
	e := &engine{unreadable: map[store.Key]error{keyOf("b"): fmt.Errorf("%w: format 9", store.ErrUnreadable)}}
	targets, _ := open(t, e)
	keys := []store.Key{keyOf("a"), keyOf("b"), keyOf("c")}
	for _, key := range keys {
		set(t, targets, key.Target)
	}
	specs, kept, err := targets.SpecsOf(t.Context(), keys, func(*setpointv1.TargetSpec) bool { return true })
	if err != nil || kept != 3 || len(specs) != 3 {
		t.Fatalf("SpecsOf = %v, %d, %v", specs, kept, err)
	}
	for i, spec := range specs {
		if spec.GetName() != keys[i].String() || (spec.GetSpec() == nil) != (i == 1) {
			t.Errorf("spec %d is %v", i, spec)
		}
	}
	e.unreadable[keyOf("b")] = store.ErrUnavailable
	if _, _, err := targets.SpecsOf(t.Context(), keys, func(*setpointv1.TargetSpec) bool { return true }); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("of a store that is away: %v", err)
	}
}
