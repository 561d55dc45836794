package overrides

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	storedv1 "github.com/setpoint-dev/setpoint/api/setpoint/stored/v1"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/store"
)

// chosenID is the length of an id that the server chooses: 60 random bits.
const chosenID = 12

// Create creates an override of a place in the name of its author, and returns it as stored, and whether it is new: if
// there is one with that id, it is returned if it is the same, else ErrExists. The override is valid at now. Without an
// id one is chosen.
func (o *Overrides) Create(ctx context.Context, place target.Place, id string, asked *setpointv1.Override, author string, now time.Time) (result *setpointv1.Override, isNew bool, err error) {
	// Not the results themselves: the change may be made even after a caller that leaves has its answer.
	var kept *setpointv1.Override
	var fresh bool
	if id == "" {
		id = strings.ToLower(rand.Text()[:chosenID])
	}
	created := proto.Clone(asked).(*setpointv1.Override)
	created.Name, created.Author, created.CreateTime = place.Override(id), author, timestamppb.New(now)
	if created.GetStartTime() == nil {
		created.StartTime = created.GetCreateTime()
	}
	err = o.change(ctx, place.Cluster, author, &change{next: func(all []*setpointv1.Override) ([]*setpointv1.Override, error) {
		kept, fresh = created, true
		at, exists := find(all, created.GetName())
		switch {
		case exists && sameAs(all[at], asked):
			kept, fresh = all[at], false
			return nil, nil
		case exists:
			return nil, ErrExists
		}
		if err := room(all, place, created); err != nil {
			return nil, err
		}
		return slices.Insert(all, at, created), nil
	}, made: func() {
		if fresh {
			o.record("override created", kept)
		}
	}})
	if err != nil {
		return nil, false, err
	}
	return kept, fresh, nil
}

// Delete deletes an override in the name of a caller, and returns it. ErrNotFound if there is none.
func (o *Overrides) Delete(ctx context.Context, place target.Place, id, caller string) (*setpointv1.Override, error) {
	var deleted *setpointv1.Override
	err := o.change(ctx, place.Cluster, caller, &change{next: func(all []*setpointv1.Override) ([]*setpointv1.Override, error) {
		at, exists := find(all, place.Override(id))
		if !exists {
			return nil, ErrNotFound
		}
		deleted = all[at]
		return slices.Delete(all, at, at+1), nil
	}, deleted: func(now time.Time) *storedv1.DeletedOverride {
		return &storedv1.DeletedOverride{Name: deleted.GetName(), CreateTime: deleted.GetCreateTime(),
			By: strings.ToValidUTF8(caller[:min(len(caller), mostDeleter)], ""), DeleteTime: timestamppb.New(now)}
	}, made: func() { o.record("override deleted", deleted, zap.String("by", caller)) }})
	if err != nil {
		return nil, err // deleted may change even now
	}
	return deleted, nil
}

// record writes to the log what has happened to an override.
func (o *Overrides) record(what string, one *setpointv1.Override, more ...zap.Field) {
	o.log.Info(what, append([]zap.Field{
		zap.String("override", one.GetName()), zap.String("what", What(one)), zap.String("author", one.GetAuthor()),
		zap.Time("starts", one.GetStartTime().AsTime()), zap.Time("expires", one.GetExpireTime().AsTime()), zap.String("reason", one.GetReason()),
	}, more...)...)
}

// Of returns the overrides of clusters that have not expired, each by name.
func (o *Overrides) Of(ctx context.Context, clusters []string) ([][]*setpointv1.Override, error) {
	keys := make([]store.Key, len(clusters))
	for i, cluster := range clusters {
		keys[i] = keyOf(cluster)
	}
	records, err := o.records.LoadBatch(ctx, keys)
	if errs := store.ByItem(err, len(keys), len(records)); errs != nil {
		for i := range errs {
			if errs[i] != nil {
				return nil, unreadable(clusters[i], errs[i])
			}
		}
	}
	now := o.clock()
	found := make([][]*setpointv1.Override, len(clusters))
	for i := range records {
		if found[i], _, err = decode(clusters[i], records[i], now); err != nil {
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

// Now is the time by which overrides begin and end.
func (o *Overrides) Now() time.Time { return o.clock() }
