// Package store is the contract for where targets' histories are kept: small
// opaque values with versions, changed by compare-and-swap. It knows nothing of
// what the values mean; no scaling rule lives below it.
//
// Engines are packages of their own (store/memory, store/redis) and must pass
// the suite in store/storetest. A caller's loop is: Load, decide,
// CompareAndSwap, and on a lost race decide again from the record that the swap
// returned:
//
//	rec, err := s.Load(ctx, key)
//	for attempt := 0; attempt < limit; attempt++ {
//		res, err := s.CompareAndSwap(ctx, store.Swap{Key: key, Old: rec.Version, Value: decide(rec)})
//		if err != nil || res.Swapped {
//			return err
//		}
//		rec = res.Record
//	}
//	return fmt.Errorf("lost %d races", limit)
package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/target"
)

// Sentinel errors of every engine, to be tested with errors.Is. An error that
// wraps none of them, and not the context's either, is a fault of the engine or
// its driver.
var (
	// ErrUnavailable means that the engine could not be reached or could not
	// answer in time. For a swap it says nothing of whether the swap happened:
	// load again before the next attempt.
	ErrUnavailable = errors.New("store unavailable")
	// ErrClosed means that Close was called.
	ErrClosed = errors.New("store closed")
	// ErrUnreadable means that what stands under the key is not a record that this
	// version can read: damaged, of somebody else's making, or written by a newer
	// version. Nothing is changed by it; Delete removes it.
	ErrUnreadable = errors.New("stored record unreadable")
	// ErrInvalidPosition means that the position to read a log from is not one
	// that ReadLog gives. Positions travel through clients, so it is the
	// caller's fault, not the engine's.
	ErrInvalidPosition = errors.New("invalid log position")
)

// BatchError is the error of a batch in which some operations failed: as long as
// the batch, nil where the operation succeeded and its result counts.
type BatchError []error

// Error names the first error and says how many there are.
func (e BatchError) Error() string {
	var first error
	failed := 0
	for _, err := range e {
		if err == nil {
			continue
		}
		if first == nil {
			first = err
		}
		failed++
	}
	return fmt.Sprintf("%d of %d failed, the first: %v", failed, len(e), first)
}

// Unwrap returns the errors that are not nil.
func (e BatchError) Unwrap() []error {
	return slices.DeleteFunc(slices.Clone(e), func(err error) bool { return err == nil })
}

// Key names one target. Its parts are not empty and contain neither '/' nor a
// NUL byte; any other byte is allowed. Engines need not check this and may join
// the parts: by NUL they sort bytewise as Compare orders them, by '/' they do not.
type Key struct {
	Cluster, Namespace, Target string
}

// String returns the target's resource name,
// clusters/{cluster}/namespaces/{namespace}/targets/{target}.
func (k Key) String() string {
	return target.Name(k).String()
}

// Compare orders keys by cluster, then namespace, then target, each bytewise:
// -1 where k comes before other, 0 where they are the same, +1 otherwise.
func (k Key) Compare(other Key) int {
	if c := strings.Compare(k.Cluster, other.Cluster); c != 0 {
		return c
	}
	if c := strings.Compare(k.Namespace, other.Namespace); c != 0 {
		return c
	}
	return strings.Compare(k.Target, other.Target)
}

// Version names one state of one key. It is opaque and comparable. A version
// never comes back: not after a delete, an expiry or a restart, so a swap
// against a remembered version succeeds only if nothing happened in between.
// The zero value stands for «the key does not exist».
type Version string

// Record is what is kept under a key at one version. The zero value stands for
// a key that does not exist.
type Record struct {
	// Version of the value; empty if and only if the key does not exist.
	Version Version
	// Value as it was swapped in; an empty one may come back nil. Belongs to the
	// caller; engines keep no alias.
	Value []byte
}

// Exists reports whether the record's key existed.
func (r Record) Exists() bool { return r.Version != "" }

// Swap asks to replace the value of Key by Value if its version is Old. With
// Old empty it asks to create the key, if it does not exist. A swap that happens
// gives the key a new version even where Value is what it had. Value remains the
// caller's; engines keep no alias.
type Swap struct {
	Key   Key
	Old   Version
	Value []byte
}

// SwapResult is the outcome of a Swap.
type SwapResult struct {
	// Swapped reports whether the value was replaced.
	Swapped bool
	// Record is the key's state after the call. After a swap that happened its
	// Value may be left nil (the caller has it); after one that did not it is
	// what stands in the way, complete, so that the caller can decide again
	// without another load (the zero Record: the key does not exist any more).
	Record Record
}

// Filter chooses keys to list.
type Filter struct {
	// Cluster to list; empty: all.
	Cluster string
	// Namespace to list; empty: all.
	Namespace string
}

// Matches reports whether the filter chooses the key.
func (f Filter) Matches(k Key) bool {
	return (f.Cluster == "" || f.Cluster == k.Cluster) && (f.Namespace == "" || f.Namespace == k.Namespace)
}

// Seek returns where the first key that the filter chooses can be at or after a
// key that it does not choose; false: there is none. So a page costs no more than
// its length and the number of clusters, whatever lies between.
func (f Filter) Seek(key Key) (Key, bool) {
	next := Key{Cluster: key.Cluster, Namespace: f.Namespace}
	switch {
	case f.Cluster != "" && f.Cluster != key.Cluster:
		next.Cluster = f.Cluster
	case f.Namespace > key.Namespace:
		// The namespace is still to come in this cluster.
	case f.Cluster == "":
		next.Cluster += "\x00" // the least string after it
	}
	return next, next.Compare(key) > 0
}

// Store keeps records. Implementations are safe for concurrent use. Every
// method honors the context's deadline and cancellation and then returns an
// error that wraps ctx.Err(); an error means that nothing can be said of the
// keys concerned (see ErrUnavailable).
//
// Records expire some time after the last swap that happened to them (a setting
// of the engine; zero keeps them). Neither a load nor a lost race prolongs that.
// An expired record is as if there had never been one, except that its versions
// do not come back.
type Store interface {
	// Load returns the record of the key, the zero Record if there is none.
	Load(ctx context.Context, key Key) (Record, error)
	// LoadBatch returns the records of the keys, in their order, each as Load
	// would; it is not a snapshot of all of them. Engines with a network
	// between use one round trip per shard. Without an error the result is as
	// long as keys; with a BatchError too, and it counts where that is nil.
	LoadBatch(ctx context.Context, keys []Key) ([]Record, error)
	// CompareAndSwap performs one swap, atomically among all callers of all
	// processes that share the engine's data.
	CompareAndSwap(ctx context.Context, swap Swap) (SwapResult, error)
	// CompareAndSwapBatch performs each swap as CompareAndSwap would, in their
	// order where several name one key; together they are not a transaction.
	// Without an error the result is as long as swaps; with a BatchError too, and
	// it counts where that is nil. With any other, some swaps may have happened.
	CompareAndSwapBatch(ctx context.Context, swaps []Swap) ([]SwapResult, error)
	// Delete removes the key's record and its log (of engines that keep one, see
	// Log) and reports whether there was a record.
	Delete(ctx context.Context, key Key) (bool, error)
	// List returns up to limit keys that have a record and that the filter
	// chooses, in the order of Key.Compare, that come after the key given (the
	// zero Key: from the first). That key need not exist, nor be one that the
	// filter chooses. limit is at least 1. Fewer than limit: there are no more. A
	// key that is created or removed meanwhile may or may not be listed; all
	// others are listed once.
	List(ctx context.Context, filter Filter, after Key, limit int) ([]Key, error)
	// Ping reports whether the engine can answer now.
	Ping(ctx context.Context) error
	// Close releases the engine's resources. Calls after it, another Close
	// included, return an error that wraps ErrClosed; of calls that it overtakes
	// some may, too.
	Close() error
}

// Deletions is what engines know of keys that were deleted, for as long as a record
// lives, or a day where records live for ever. Engines that several instances share
// implement it: one that could not reach the engine meanwhile must not bring back what
// another has deleted.
type Deletions interface {
	// DeletedAt returns when the record of each key was last deleted, by the clock of
	// whoever did; the zero time: it was not, or too long ago. That there is a record
	// again does not change it. It uses one round trip per shard.
	DeletedAt(ctx context.Context, keys []Key) ([]time.Time, error)
}

// Clock is the clock of an engine that several instances share, by which they may find
// out whether theirs are right. Engines in the same process have none.
type Clock interface {
	// Time returns the engine's time, of a Cluster that of any of its nodes.
	Time(ctx context.Context) (time.Time, error)
}

// Usage is what the records of some keys take.
type Usage struct {
	// Keys is how many there are, and Bytes what their values take together.
	Keys, Bytes int64
}

// Usages is implemented by engines that can tell what a cluster's records take.
type Usages interface {
	// Usage returns what the records of a cluster take; of all for "". Bytes are an
	// estimate by some records chosen at random, and so is how many of the keys have
	// expired and are not counted; without expired ones, Keys are exact. It costs some
	// hundred small operations, and does not read all keys. Of parts of the engine that do not answer nothing is counted; it fails
	// where none does.
	Usage(ctx context.Context, cluster string) (Usage, error)
}

// LogEntry is one value to append to a key's log. Value remains the caller's;
// engines keep no alias.
type LogEntry struct {
	Key   Key
	Value []byte
	// First reports whether the value begins a log: it is appended only if the key has
	// none, or an empty one.
	First bool
}

// Log keeps the most recent entries per key, for people to read: best effort,
// bounded (a setting of the engine), without a say in any decision. Engines that
// implement Store implement it too, and what Store says of contexts, errors and
// concurrent use holds here.
//
// A key's log and its record are independent of each other, except that Delete
// removes both. A log expires as a whole, as long after its last entry as a
// record does after its last swap.
type Log interface {
	// AppendLog appends the entries in their order, dropping each key's oldest
	// past the bound. Keys need not have a record.
	AppendLog(ctx context.Context, entries []LogEntry) error
	// ReadLog returns up to limit values of the key, newest first, from position
	// before on: the empty string stands for the newest. limit is at least 1. next
	// is the position to go on from, empty when there is no more. Entries appended
	// meanwhile do not move a position. One that the log does not hold any more
	// continues with what is older; a string that cannot be a position is
	// ErrInvalidPosition. The values belong to the caller.
	ReadLog(ctx context.Context, key Key, before string, limit int) (values [][]byte, next string, err error)
}

// Secrets is implemented by engines whose data several instances share, so that they
// can agree on a secret.
type Secrets interface {
	// Secret returns the secret of a name, the same for all who share the engine's
	// data. Where there is none, proposal becomes it. It does not expire, and is no
	// record: List does not know it. The name is of letters and '-'; neither it nor the
	// proposal may be empty.
	Secret(ctx context.Context, name string, proposal []byte) ([]byte, error)
}

// Instances is implemented by engines whose data several instances share, so that they know of
// each other. It is for people to look at, without a say in any decision.
type Instances interface {
	// Announce keeps what an instance says of itself for ttl, in the place of what it said
	// before; each may be empty, for none. What it said may not be the same as what another
	// one says. It costs one small operation.
	Announce(ctx context.Context, before, now []byte, ttl time.Duration) error
	// Announced returns what instances said of themselves, in no order, at most limit. Of an
	// instance whose announcement was lost on the way it may be more than one.
	Announced(ctx context.Context, limit int) ([][]byte, error)
}

// Part names records that are kept of targets beside their histories.
type Part string

// The parts that there are.
const (
	// Specs are the specs that were stored of targets.
	Specs Part = "spec"
	// Observations are what was pushed of targets: scale, pods and samples.
	Observations Part = "observation"
)

// Parts is implemented by engines that keep further records of targets beside their
// histories. Those of one target lie together, so that one round trip loads them all;
// each has a version of its own and is swapped by itself.
type Parts interface {
	// Part returns the store of a part's records. They live for ttl after their last
	// swap; zero or less: for ever. The ttl is that of the first call for the part. It is
	// closed with the engine; its own Close does nothing. It fails for a part that is none
	// of those above.
	Part(part Part, ttl time.Duration) (PartStore, error)
	// LoadParts returns the records of a key, in the order of parts, each as its store's
	// Load would, in one round trip; "" is the history. It is not a snapshot of all of
	// them. Part must have been called for each of them before.
	LoadParts(ctx context.Context, key Key, parts ...Part) ([]Record, error)
}

// PartStore keeps the records of a part.
type PartStore interface {
	Store
	// DeleteVersion removes the key's record if its version is the one given, atomically as
	// CompareAndSwap: Swapped reports whether it did, and otherwise Record is what stands in
	// the way. The empty version is no record's.
	DeleteVersion(ctx context.Context, key Key, version Version) (SwapResult, error)
}

// IsKnown reports whether the part is one of those that there are.
func (p Part) IsKnown() bool { return p == Specs || p == Observations }

// UnknownPart is the error of a part that is none.
func UnknownPart(p Part) error { return fmt.Errorf("no such part: %q", p) }
