// Package store is the contract for where targets' histories are kept: small opaque values with
// versions, changed by compare-and-swap. It does not interpret the values; no scaling rule belongs
// below it.
//
// Engines are packages of their own (store/memory, store/redis) and must pass the suite in
// store/storetest. A caller loads, decides and swaps; when it loses a race it decides again from
// the record that the swap returned:
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

// Sentinel errors of every engine; test for them with errors.Is. An error that
// wraps neither one of them nor the context's is a fault of the engine or its
// driver.
var (
	// ErrUnavailable means that the engine could not be reached or could not
	// answer in time. A swap may or may not have happened: load again before the
	// next attempt.
	ErrUnavailable = errors.New("store unavailable")
	// ErrClosed means that Close was called.
	ErrClosed = errors.New("store closed")
	// ErrUnreadable means that the key's value is not a record that this version can
	// read: it is damaged, another program's, or written by a newer version. The
	// engine leaves it unchanged; Delete removes it.
	ErrUnreadable = errors.New("stored record unreadable")
	// ErrInvalidPosition means that ReadLog was called with a position that it never
	// returned. Positions travel through clients, so it is the caller's fault, not the
	// engine's.
	ErrInvalidPosition = errors.New("invalid log position")
)

// BatchError is the error of a batch in which some operations failed. It has an element
// per operation, nil where the operation succeeded and its result is valid.
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
// The zero value means that the key does not exist.
type Version string

// Record is the value of a key at one version. The zero value means that the key
// does not exist.
type Record struct {
	// Version of the value; empty if and only if the key does not exist.
	Version Version
	// Value as it was swapped in; an empty one may come back nil. The caller owns it;
	// engines keep no alias.
	Value []byte
	// Cut is set by LoadParts where it left the value out.
	Cut bool
}

// Exists reports whether the record's key existed.
func (r Record) Exists() bool { return r.Version != "" }

// Swap replaces the value of Key by Value if its version is Old. With Old empty it
// creates the key if it does not exist. A successful swap gives the key a new version
// even if Value is unchanged. The caller owns Value; engines keep no alias.
type Swap struct {
	Key   Key
	Old   Version
	Value []byte
	// WhenFull has an engine that is full make the swap nevertheless, as it does deletions, unless it creates
	// the key.
	WhenFull bool
}

// SwapResult is the outcome of a Swap.
type SwapResult struct {
	// Swapped reports whether the value was replaced.
	Swapped bool
	// Record is the key's state after the call. After a successful swap its Value may
	// be nil (the caller has it). After a failed one it is the conflicting record,
	// complete, so that the caller can decide again without another load (the zero
	// Record: the key no longer exists).
	Record Record
}

// Filter selects keys to list.
type Filter struct {
	// Cluster to list; empty: all.
	Cluster string
	// Namespace to list; empty: all.
	Namespace string
}

// Matches reports whether the filter selects the key.
func (f Filter) Matches(k Key) bool {
	return (f.Cluster == "" || f.Cluster == k.Cluster) && (f.Namespace == "" || f.Namespace == k.Namespace)
}

// Seek returns the first possible key after the given one that the filter selects;
// false if none is left. The cost of a page is therefore proportional to its length and
// the number of clusters, whatever lies between.
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

// Store keeps records. Implementations are safe for concurrent use. Every method honors
// the context's deadline and cancellation and then returns an error that wraps
// ctx.Err(); after an error the state of the keys concerned is unknown (see
// ErrUnavailable).
//
// Records expire some time after their last successful swap (a setting of the engine;
// zero keeps them). Neither a load nor a lost race prolongs that. An expired record is
// as if it had never existed, except that its versions do not come back.
type Store interface {
	// Load returns the record of the key, the zero Record if there is none.
	Load(ctx context.Context, key Key) (Record, error)
	// LoadBatch returns the records of the keys, in their order, each as Load would; it
	// is not a snapshot of all of them. Engines with a network between use one round
	// trip per shard. Without an error the result is as long as keys; with a BatchError
	// too, and an element is valid where the error is nil.
	LoadBatch(ctx context.Context, keys []Key) ([]Record, error)
	// CompareAndSwap performs one swap, atomically among all callers of all
	// processes that share the engine's data.
	CompareAndSwap(ctx context.Context, swap Swap) (SwapResult, error)
	// CompareAndSwapBatch performs each swap as CompareAndSwap would, in their order
	// where several name one key; together they are not a transaction. Without an error
	// the result is as long as swaps; with a BatchError too, and an element is valid
	// where the error is nil. With any other error, some swaps may have happened.
	CompareAndSwapBatch(ctx context.Context, swaps []Swap) ([]SwapResult, error)
	// Delete removes the key's record and its log (of engines that keep one, see
	// Log) and reports whether there was a record.
	Delete(ctx context.Context, key Key) (bool, error)
	// List returns up to limit keys that have a record, match the filter and follow the
	// given key (the zero Key: from the first), in the order of Key.Compare. The given
	// key need not exist or match the filter. limit is at least 1. Fewer than limit:
	// there are no more. A key that is created or removed meanwhile may or may not be
	// listed; all others are listed once.
	List(ctx context.Context, filter Filter, after Key, limit int) ([]Key, error)
	// Ping reports whether the engine can answer now.
	Ping(ctx context.Context) error
	// Close releases the engine's resources. Later calls, including another Close,
	// return an error that wraps ErrClosed; calls in progress may do so, too.
	Close() error
}

// Deletions are an engine's deleted keys, kept for as long as a record lives, or a day if
// records never expire. Engines that several instances share implement it, so that an
// instance that could not reach the engine for a while does not restore what another has
// deleted.
type Deletions interface {
	// DeletedAt returns when the record of each key was last deleted, by the engine's clock;
	// the zero time: never, or too long ago. A new record does not change it. It uses one round trip per shard.
	DeletedAt(ctx context.Context, keys []Key) ([]time.Time, error)
}

// Clock is the clock of an engine that several instances share; they compare their own
// clocks with it. Engines within a process have none.
type Clock interface {
	// Time returns the engine's time, in a Cluster the median of its masters'.
	Time(ctx context.Context) (time.Time, error)
}

// Sharded is implemented by engines that may be spread over servers.
type Sharded interface {
	// Lacking returns why some of the servers could not be used at the last Ping that others answered; nil: all of them could.
	Lacking() error
}

// Usage is the size of the records of some keys.
type Usage struct {
	// Keys is the number of keys, Bytes the total size of their values.
	Keys, Bytes int64
}

// Usages is implemented by engines that can measure the records of a cluster.
type Usages interface {
	// Usage returns the size of a cluster's records; of all records for "". It estimates
	// Bytes from some random records, and in the same way the number of expired keys, which
	// it does not count; without expired keys, Keys is exact. It costs some hundred small
	// operations and does not read all keys. It does not count shards that do not respond,
	// and fails if none responds.
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
	// Kept reports whether the entry is kept longer than others: it counts against a bound of its
	// own, so that others don't displace it.
	Kept bool
}

// Log keeps the most recent entries per key, for people to read: best effort, bounded
// (a setting of the engine), and not part of any decision. Engines that implement Store
// implement it too, and Store's rules for contexts, errors and concurrent use apply.
//
// A key's log and its record are independent of each other, except that Delete removes
// both. The entries that are kept longer expire together, as long after the last of them as a
// record does after its last swap; so do the others.
type Log interface {
	// AppendLog appends the entries in their order, dropping each key's oldest
	// past the bounds. Keys need not have a record.
	AppendLog(ctx context.Context, entries []LogEntry) error
	// ReadLog returns up to limit values of the key, newest first, starting at the
	// position before; the empty string starts at the newest. limit is at least 1. next
	// is the position of the following page, empty when there is none. Entries appended
	// meanwhile do not move a position. A read from a position whose entries were dropped
	// continues with older ones; a string that cannot be a position is
	// ErrInvalidPosition. The caller owns the values.
	ReadLog(ctx context.Context, key Key, before string, limit int) (values [][]byte, next string, err error)
}

// Secrets is implemented by engines whose data several instances share, so that they
// can agree on a secret.
type Secrets interface {
	// Secret returns the secret of a name, the same for all instances that share the
	// engine's data. If there is none yet, proposal becomes the secret. It does not expire,
	// and is not a record: List does not return it. The name consists of letters and '-';
	// neither it nor the proposal may be empty.
	Secret(ctx context.Context, name string, proposal []byte) ([]byte, error)
}

// Announcements is implemented by engines that keep short-lived lists of announcements, by which
// instances and agents know of each other. The lists are for people; no decision depends on them.
type Announcements interface {
	// Announce stores an announcement in a list for ttl and removes its previous one; either
	// may be empty, for none. Two announcers must not announce the same. The list ends with its
	// last announcement. Its name is InstancesList, or AgentsList and letters and digits. It
	// costs one small operation.
	Announce(ctx context.Context, list string, before, now []byte, ttl time.Duration) error
	// Announced returns at most limit announcements of a list, in no order. An announcer whose
	// announcement got lost may have more than one.
	Announced(ctx context.Context, list string, limit int) ([][]byte, error)
}

// Lists of announcements.
const (
	// InstancesList is that of the instances that share the engine.
	InstancesList = "instances"
	// AgentsList is the prefix of those of agents, a list for each platform.
	AgentsList = "agents:"
)

// Part names a kind of record that a target has beside its history.
type Part string

// The parts.
const (
	// Specs are the stored specs of targets.
	Specs Part = "spec"
	// Observations are the reported observations of targets: scale, pods and samples.
	Observations Part = "observation"
	// Overrides are the overrides of a cluster, all of them in one record. Its key is not a target's: namespace
	// and target are "-".
	Overrides Part = "override"
	// Fleets are the records of fleets, under the key of each.
	Fleets Part = "fleet"
	// FleetMembers name the fleet of a target, under the target's key.
	FleetMembers Part = "fleetMember"
	// Forecasts are what targets with a forecast needed in the last weeks.
	Forecasts Part = "forecast"
)

// Parts is implemented by engines that keep further records of targets beside their
// histories. All records of one target are stored together, so that one round trip
// loads them; each has its own version and is swapped independently.
type Parts interface {
	// Part returns the store of a part's records. They live for ttl after their last swap;
	// zero or less: for ever. The first call for a part sets its ttl. The store closes with
	// the engine; its own Close does nothing. Part fails for an unknown part.
	Part(part Part, ttl time.Duration) (PartStore, error)
	// LoadParts returns the records of a key, in the order of parts, each as its store's
	// Load would, in one round trip; "" is the history. It is not a snapshot of all of
	// them. Part must have been called for each of them before. Values of more than most
	// bytes are left out; 0: none is.
	LoadParts(ctx context.Context, key Key, most int, parts ...Part) ([]Record, error)
}

// Engine is what a service needs of an engine: all of this repository are one.
type Engine interface {
	Store
	Parts
}

// PartStore keeps the records of a part.
type PartStore interface {
	Store
	// LoadVersions returns the versions of the keys' records as LoadBatch would, without their values: a reader
	// that has a record asks so whether it is still the one. Of a record that can't be read it returns an
	// error, or a version that no record has had; of an empty one perhaps that there is none.
	LoadVersions(ctx context.Context, keys []Key) ([]Version, error)
	// DeleteVersion removes the key's record if it has the given version, atomically as
	// CompareAndSwap does. Swapped reports whether it did; if not, Record is the conflicting
	// record. No record has the empty version.
	DeleteVersion(ctx context.Context, key Key, version Version) (SwapResult, error)
}

// Chunks is implemented by engines that keep a second log of targets, of other entries than the first.
type Chunks interface {
	// Chunks returns the log, which keeps length entries of a key, all of them for ttl after the last one; zero or
	// less: for ever. The first call sets both. Keys have it beside their other records and logs; it closes with
	// the engine.
	Chunks(length int, ttl time.Duration) ChunkLog
}

// ChunkLog is a second log.
type ChunkLog interface {
	Log
	// Delete removes the key's entries. The result says nothing.
	Delete(ctx context.Context, key Key) (bool, error)
}

// ChunksPart is what engines name the second log among their parts. No part has that name.
const ChunksPart Part = "chunk"

// IsKnown reports whether the part is one of those above.
func (p Part) IsKnown() bool {
	switch p {
	case Specs, Observations, Overrides, Fleets, FleetMembers, Forecasts:
		return true
	}
	return false
}

// UnknownPart returns the error for an unknown part.
func UnknownPart(p Part) error { return fmt.Errorf("no such part: %q", p) }

// ByItem returns the errors of a batch of n by item, nil for none; results is how many there are.
func ByItem(err error, n, results int) []error {
	if err == nil && results == n {
		return nil
	}
	var failed BatchError // escapes to the heap
	switch {
	case errors.As(err, &failed) && len(failed) == n && results == n:
		return failed
	case err == nil:
		err = fmt.Errorf("asked for %d results, got %d", n, results)
	}
	return slices.Repeat([]error{err}, n)
}
