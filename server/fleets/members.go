package fleets

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/store"
)

// maxSwaps limits the attempts to change a key of a member, or a record while its members call.
const maxSwaps = 64

// ErrContended means that others changed a record too often meanwhile.
var ErrContended = errors.New("changed by others too often")

// TakenError means that a target is a member of another fleet, which it does not name.
type TakenError struct{ Member string }

// Error implements error.
func (e *TakenError) Error() string { return e.Member + " is a member of another fleet" }

// Claim makes targets members of a fleet before its spec is stored, each in a swap of its own: a TakenError names the
// first that is another fleet's, whose stored spec names it. A claim that nobody stored a spec for is taken over, so
// a caller that dies in between holds nobody up, and doing it again repairs it.
func (f *Fleets) Claim(ctx context.Context, of store.Key, names []string) error {
	keys := keysOf(names)
	records, err := f.members.LoadBatch(ctx, keys)
	if err != nil {
		return err
	}
	for i := range keys {
		if err := f.claim(ctx, of.String(), keys[i], records[i]); err != nil {
			return err
		}
	}
	return nil
}

func (f *Fleets) claim(ctx context.Context, of string, member store.Key, record store.Record) error {
	for range maxSwaps {
		if string(record.Value) == of {
			return nil
		}
		if record.Exists() {
			taken, err := f.names(ctx, string(record.Value), member.String())
			if err != nil {
				return err
			}
			if taken {
				return &TakenError{member.String()}
			}
		}
		result, err := f.members.CompareAndSwap(ctx, store.Swap{Key: member, Old: record.Version, Value: []byte(of)})
		if err != nil || result.Swapped {
			return err
		}
		record = result.Record
	}
	return fmt.Errorf("%w: %d times", ErrContended, maxSwaps)
}

// names reports whether the stored spec of a fleet names a member.
func (f *Fleets) names(ctx context.Context, of, member string) (bool, error) {
	record, err := f.specs.Load(ctx, decision.ParseTarget(of))
	if err != nil {
		return false, err
	}
	stored := &setpointv1.TargetSpec{}
	if err := proto.Unmarshal(record.Value, stored); err != nil {
		return true, nil // nobody can tell: its fleet must be deleted first
	}
	for _, name := range conversion.FleetMembers(stored.GetFleet()) {
		if name == member {
			return true, nil
		}
	}
	return false, nil
}

// Fleets returns which of the targets are fleets: they have a record, which storing the spec has made.
func (f *Fleets) Fleets(ctx context.Context, names []string) (fleets []string, err error) {
	versions, err := f.records.LoadVersions(ctx, keysOf(names))
	if err != nil {
		return nil, err
	}
	for i, version := range versions {
		if version != "" {
			fleets = append(fleets, names[i])
		}
	}
	return fleets, nil
}

// Release takes targets out of a fleet whose spec no longer names them.
func (f *Fleets) Release(ctx context.Context, of store.Key, names []string) error {
	if len(names) == 0 {
		return nil
	}
	keys := keysOf(names)
	records, err := f.members.LoadBatch(ctx, keys)
	if err != nil {
		return err
	}
	for i, record := range records {
		if string(record.Value) != of.String() {
			continue
		}
		if _, err := f.members.DeleteVersion(ctx, keys[i], record.Version); err != nil {
			return err
		}
	}
	return nil
}

// Stored puts the record of a fleet under a version of its spec that was just stored: from then on no call is
// answered under another one. A new fleet begins without what one of the same name has left.
func (f *Fleets) Stored(ctx context.Context, of store.Key, version store.Version, isNew bool) error {
	record, err := f.records.Load(ctx, of)
	for range maxSwaps {
		if err != nil && !errors.Is(err, store.ErrUnreadable) {
			return err
		}
		next := &state{spec: version}
		if before, err := decodeState(record.Value); err == nil && !isNew {
			known := *before
			known.spec, next = version, &known
		}
		result, err := f.records.CompareAndSwap(ctx, store.Swap{Key: of, Old: record.Version, Value: next.append(nil)})
		if err != nil {
			return err
		}
		if record = result.Record; result.Swapped {
			f.cache.Delete(of)
			return nil
		}
	}
	return fmt.Errorf("%w: %d times", ErrContended, maxSwaps)
}

// Delete deletes the record of a fleet whose spec was deleted, and releases its members.
func (f *Fleets) Delete(ctx context.Context, of store.Key, names []string) error {
	if _, err := f.records.Delete(ctx, of); err != nil {
		return err
	}
	f.cache.Delete(of)
	return f.Release(ctx, of, names)
}

// Of returns the fleet that a target is a member of; "": none.
func (f *Fleets) Of(ctx context.Context, member store.Key) (string, error) {
	record, err := f.members.Load(ctx, member)
	if err != nil || !record.Exists() {
		return "", err
	}
	named, err := f.names(ctx, string(record.Value), member.String())
	if err != nil || !named {
		return "", err
	}
	return string(record.Value), nil
}

// Fleet returns the state of a fleet; nil if there is none.
func (f *Fleets) Fleet(ctx context.Context, of store.Key) (*setpointv1.Fleet, error) {
	k, err := f.load(ctx, of)
	switch {
	case errors.Is(err, errNoFleet):
		return nil, nil
	case err != nil:
		return nil, err
	case k.spec.problem != nil:
		return nil, fmt.Errorf("%w: %w", store.ErrUnreadable, k.spec.problem)
	}
	return conversion.FleetState(of.String(), k.spec.stored, &k.spec.fleet, &k.state.fleet, &k.state.decisions.Status, f.now()), nil
}

// Decisions returns the record of a fleet's decisions; nil if there is no such fleet.
func (f *Fleets) Decisions(ctx context.Context, of store.Key) (*record.Record, error) {
	k, err := f.load(ctx, of)
	switch {
	case errors.Is(err, errNoFleet):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &k.state.decisions, nil
}

func (f *Fleets) now() time.Time { return f.targets.Options.Clock() }

func keysOf(names []string) []store.Key {
	keys := make([]store.Key, len(names))
	for i, name := range names {
		keys[i] = decision.ParseTarget(name)
	}
	return keys
}
