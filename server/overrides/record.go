package overrides

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	storedv1 "github.com/setpoint-dev/setpoint/api/setpoint/stored/v1"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/store"
)

// Limits of the overrides that have not expired.
const (
	// MostOfPlace limits those of one target, of one namespace or of one cluster as a whole: a decision looks at
	// three times as many at most.
	MostOfPlace = 32
	// MostOfCluster limits those of a cluster and of all that is in it, and MostBytes their record.
	MostOfCluster = 1000
	MostBytes     = 256 << 10
	// MostOfNamespace limits those of a namespace and its targets. ReservedOfCluster of a cluster's places, and
	// ReservedBytes of its record, are for overrides of the cluster as a whole.
	MostOfNamespace   = 512
	ReservedOfCluster = MostOfPlace
	ReservedBytes     = 32 << 10
	// MostBytesOfNamespace limits the bytes of a namespace and its targets: half of those that namespaces may take.
	MostBytesOfNamespace = (MostBytes - ReservedBytes) / 2
	// LongestLife is how long after its start an override may end, and FarthestStart how far ahead it may start.
	LongestLife   = 30 * 24 * time.Hour
	FarthestStart = 365 * 24 * time.Hour
	// Kept is how long a record is kept after its last change: longer than any override in it.
	Kept = FarthestStart + LongestLife + 24*time.Hour
)

const (
	// deletedFor is how long a record says who deleted an override, and mostDeletedBytes limits of how many it does, where
	// each takes leastDeletion at least: 32, as most take less. These are beyond MostBytes.
	deletedFor       = time.Hour
	mostDeletedBytes = 8 << 10
	leastDeletion    = 256
	// mostDeletion is more than the largest of them has, in bytes: its names have at most 1 KiB together.
	mostDeletion = 2 << 10
	// mostDeleter limits the identity of who deleted one, in bytes.
	mostDeleter = 128
)

// Sentinel errors.
var (
	// ErrNotFound means that there is no such override, or that it has expired.
	ErrNotFound = errors.New("no such override")
	// ErrExists means that there is another override of that name.
	ErrExists = errors.New("another override has this name")
	// ErrContended means that other callers changed the cluster's overrides time and again.
	ErrContended = errors.New("changed by other callers at the same time")
)

// FullError means that there are as many overrides as there may be.
type FullError struct {
	// Limit is the limit's name in the API, Most its value.
	Limit string
	Most  int
	text  string
}

func (e *FullError) Error() string { return e.text }

// UnreadableError means that a cluster's record can't be read.
type UnreadableError struct {
	Cluster string
	err     error
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("the stored overrides of cluster %q can't be read: %v", e.Cluster, e.err)
}

func (e *UnreadableError) Unwrap() error { return e.err }

// unreadable makes an UnreadableError of the store's error for a cluster's record, if it is one.
func unreadable(cluster string, err error) error {
	if errors.Is(err, store.ErrUnreadable) {
		return &UnreadableError{cluster, err}
	}
	return err
}

// keyOf is the key of a cluster's record.
func keyOf(cluster string) store.Key {
	return store.Key{Cluster: cluster, Namespace: "-", Target: "-"}
}

// decode returns the overrides in a record, by name, without those that have expired by then, and those that were
// deleted lately.
func decode(cluster string, record store.Record, now time.Time) ([]*setpointv1.Override, []*storedv1.DeletedOverride, error) {
	var all storedv1.Overrides
	if err := proto.Unmarshal(record.Value, &all); err != nil {
		return nil, nil, &UnreadableError{cluster, err}
	}
	return slices.DeleteFunc(all.GetOverrides(), func(o *setpointv1.Override) bool {
		return !now.Before(o.GetExpireTime().AsTime())
	}), slices.DeleteFunc(all.GetDeleted(), func(d *storedv1.DeletedOverride) bool { return !lately(now)(d) }), nil
}

// lately returns whether an override was deleted so lately that a record says who did it.
func lately(now time.Time) func(*storedv1.DeletedOverride) bool {
	return func(d *storedv1.DeletedOverride) bool { return now.Sub(d.GetDeleteTime().AsTime()) < deletedFor }
}

// encode returns the value of a record of overrides, which are sorted by name. It has bytes even of none: the store does
// not tell an empty value from none.
func encode(all []*setpointv1.Override, deleted []*storedv1.DeletedOverride) ([]byte, error) {
	list := &storedv1.Overrides{Overrides: all, Deleted: keptDeleted(deleted)}
	if len(all) == 0 {
		list.None = "-" // nobody reads it
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(list)
}

// keptDeleted returns the deletions that a record keeps, of all in the order of time. While they are too many, the place
// that has the most, a namespace with its targets or the cluster as a whole, goes without its oldest: so none erases what
// others have deleted.
func keptDeleted(all []*storedv1.DeletedOverride) []*storedv1.DeletedOverride {
	namespaceOf := func(d *storedv1.DeletedOverride) string {
		place, _, _ := target.ParseOverride(d.GetName())
		return place.Namespace
	}
	of := map[string]int{}
	total := 0
	for _, d := range all {
		of[namespaceOf(d)] += deletionBytes(d)
		total += deletionBytes(d)
	}
	for total > mostDeletedBytes {
		most := 0
		for _, bytes := range of {
			most = max(most, bytes)
		}
		i := slices.IndexFunc(all, func(d *storedv1.DeletedOverride) bool { return of[namespaceOf(d)] == most })
		bytes := deletionBytes(all[i])
		of[namespaceOf(all[i])] -= bytes
		total -= bytes
		all = slices.Delete(all, i, i+1)
	}
	return all
}

// deletionBytes is what a deletion takes of mostDeletedBytes.
func deletionBytes(d *storedv1.DeletedOverride) int { return max(leastDeletion, proto.Size(d)) }

// find returns where the override of a name is, or would be.
func find(all []*setpointv1.Override, name string) (int, bool) {
	return slices.BinarySearchFunc(all, name, func(o *setpointv1.Override, name string) int { return cmp.Compare(o.GetName(), name) })
}

// sameAs reports whether an override is what a call asks for that may have created it.
func sameAs(o, asked *setpointv1.Override) bool {
	start := asked.GetStartTime()
	if start == nil {
		start = o.GetCreateTime()
	}
	want := proto.Clone(asked).(*setpointv1.Override)
	want.Name, want.Author, want.CreateTime, want.StartTime = o.GetName(), o.GetAuthor(), o.GetCreateTime(), start
	return proto.Equal(o, want)
}
