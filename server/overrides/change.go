package overrides

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/store"
)

const (
	// maxSwaps limits the attempts of a change.
	maxSwaps = 16
	// chosenID is the length of an id that the server chooses: 60 random bits.
	chosenID = 12
)

// Create creates an override of a place in the name of its author, and returns it as stored. The override is valid
// at now. If there is one with that id, it is returned if it is the same, else ErrExists. Without an id one is chosen.
func (o *Overrides) Create(ctx context.Context, place target.Place, id string, asked *setpointv1.Override, author string, now time.Time) (*setpointv1.Override, error) {
	if id == "" {
		id = strings.ToLower(rand.Text()[:chosenID])
	}
	created := proto.Clone(asked).(*setpointv1.Override)
	created.Name, created.Author, created.CreateTime = place.Override(id), author, timestamppb.New(now)
	if created.GetStartTime() == nil {
		created.StartTime = created.GetCreateTime()
	}
	result := created
	most := MostBytes
	if place.Namespace != "" {
		most -= ReservedBytes
	}
	err := o.change(ctx, place.Cluster, most, now, func(all []*setpointv1.Override) ([]*setpointv1.Override, error) {
		result = created
		at, exists := find(all, created.GetName())
		switch {
		case exists && sameAs(all[at], asked):
			result = all[at]
			return nil, nil
		case exists:
			return nil, ErrExists
		case len(all) >= MostOfCluster, place.Namespace != "" && len(all) >= MostOfCluster-ReservedOfCluster:
			return nil, &FullError{"maxOverridesOfCluster", MostOfCluster, fmt.Sprintf("cluster %q has %d overrides, and %d places are for those of the cluster as a whole: delete some, or override the cluster", place.Cluster, len(all), ReservedOfCluster)}
		}
		ofPlace, ofNamespace := 0, 0
		for _, other := range all {
			p, _, ok := target.ParseOverride(other.GetName())
			if ok && p == place {
				ofPlace++
			}
			if ok && p.Namespace == place.Namespace {
				ofNamespace++
			}
		}
		if place.Namespace != "" && ofNamespace >= MostOfNamespace {
			return nil, &FullError{"maxOverridesOfNamespace", MostOfNamespace, fmt.Sprintf("namespace %q has %d overrides, as many as there may be: delete some", place.Namespace, ofNamespace)}
		}
		if ofPlace >= MostOfPlace {
			return nil, &FullError{"maxOverrides", MostOfPlace, fmt.Sprintf("%s has %d overrides of its own, as many as there may be: delete some", place, ofPlace)}
		}
		return slices.Insert(all, at, created), nil
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

// Delete deletes an override, and returns it. ErrNotFound if there is none.
func (o *Overrides) Delete(ctx context.Context, place target.Place, id string, now time.Time) (deleted *setpointv1.Override, err error) {
	err = o.change(ctx, place.Cluster, MostBytes, now, func(all []*setpointv1.Override) ([]*setpointv1.Override, error) {
		at, exists := find(all, place.Override(id))
		if !exists {
			return nil, ErrNotFound
		}
		deleted = all[at]
		return append([]*setpointv1.Override{}, slices.Delete(all, at, at+1)...), nil
	})
	return deleted, err
}

// change changes the overrides of a cluster that have not expired, and retries until no other write comes in between.
// The new record takes at most that many bytes. next returns the new ones, nil for no change, or an error to stop with.
func (o *Overrides) change(ctx context.Context, cluster string, most int, now time.Time, next func([]*setpointv1.Override) ([]*setpointv1.Override, error)) error {
	key := keyOf(cluster)
	record, err := o.records.Load(ctx, key)
	if err != nil {
		return err
	}
	for range maxSwaps {
		all, err := decode(cluster, record, now)
		if err != nil {
			return err
		}
		if all, err = next(all); err != nil || all == nil {
			return err
		}
		value, err := encode(all)
		if err != nil {
			return err
		}
		if len(value) > most {
			return &FullError{"maxOverrideBytes", most, fmt.Sprintf("the overrides of cluster %q would take %d bytes, and %d is the most: delete some", cluster, len(value), most)}
		}
		result, err := o.swap(ctx, store.Swap{Key: key, Old: record.Version, Value: value}, len(all) == 0)
		if err != nil {
			return err
		}
		if result.Swapped {
			o.changed(cluster)
			return nil
		}
		record = result.Record
	}
	return fmt.Errorf("%w: %d times", ErrContended, maxSwaps)
}

// swap swaps a record, or deletes it if nothing is left in it.
func (o *Overrides) swap(ctx context.Context, swap store.Swap, empty bool) (store.SwapResult, error) {
	if empty && swap.Old != "" {
		return o.records.DeleteVersion(ctx, swap.Key, swap.Old)
	}
	return o.records.CompareAndSwap(ctx, swap)
}

// Of returns the overrides of clusters that have not expired, each by name.
func (o *Overrides) Of(ctx context.Context, clusters []string) ([][]*setpointv1.Override, error) {
	keys := make([]store.Key, len(clusters))
	for i, cluster := range clusters {
		keys[i] = keyOf(cluster)
	}
	records, err := o.records.LoadBatch(ctx, keys)
	if err != nil {
		return nil, err
	}
	now := o.clock()
	found := make([][]*setpointv1.Override, len(clusters))
	for i := range records {
		if found[i], err = decode(clusters[i], records[i], now); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Clusters returns the names of at most limit clusters after one that may have overrides, in order.
func (o *Overrides) Clusters(ctx context.Context, after string, limit int) ([]string, error) {
	key := store.Key{}
	if after != "" {
		key = keyOf(after)
	}
	keys, err := o.records.List(ctx, store.Filter{}, key, limit)
	clusters := make([]string, len(keys))
	for i := range keys {
		clusters[i] = keys[i].Cluster
	}
	return clusters, err
}

// Now is the time of decisions.
func (o *Overrides) Now() time.Time { return o.clock() }
