package fleets

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/shadows"
	"github.com/setpoint-dev/setpoint/store"
)

// maxSwaps limits the attempts to change a key of a member, or a record while its members call.
const maxSwaps = 64

// claimFor is how long a claim counts although the stored spec of its fleet does not name the member: whoever made it
// may be about to store that.
const claimFor = 10 * time.Second

// TakenError means that a target is a member of another fleet, Of, or Soon may be. Its text has not that one's name,
// which is not for everybody.
type TakenError struct {
	Member, Of string
	Soon       bool
}

// Error implements error.
func (e *TakenError) Error() string {
	if e.Soon {
		return e.Member + " is being made a member of another fleet"
	}
	return e.Member + " is a member of another fleet"
}

// Claims are the members that a caller has claimed and that were not its fleet's before, with the version of each key.
type Claims map[store.Key]store.Version

// Claim makes targets members of a fleet before its spec is stored, each in a swap of its own: a TakenError names the
// first that is another fleet's. A claim that nobody stored a spec for is taken over after claimFor, so a caller that
// dies in between holds nobody up for long, and doing it again repairs it.
//
// It is called again when the spec is stored, and then writes each key once more. A caller that has read the spec
// before that, and would take the member over, thus loses its swap; one that was faster is seen.
func (f *Fleets) Claim(ctx context.Context, of store.Key, names []string, claims Claims) error {
	keys := keysOf(slices.Sorted(slices.Values(names))) // all in one order: of several callers one gets all
	records, err := f.members.LoadBatch(ctx, keys)
	if err != nil {
		return err
	}
	for i := range keys {
		if err := f.claim(ctx, of.String(), keys[i], records[i], claims); err != nil {
			return err
		}
	}
	return nil
}

func (f *Fleets) claim(ctx context.Context, of string, member store.Key, record store.Record, claims Claims) error {
	was := ""
	record, err := store.Change(ctx, f.members, member, record, maxSwaps, f.claimed.Room(ctx, member.Cluster, f.options.Shares.For(access.CallerOf(ctx))), func(record store.Record) ([]byte, error) {
		owner, at := claimOf(record.Value)
		if was = owner; owner != "" && owner != of {
			taken, err := f.names(ctx, owner, member.String())
			if err != nil {
				return nil, err
			}
			if soon := f.now().Sub(at).Abs() < claimFor; taken || soon {
				return nil, &TakenError{member.String(), owner, !taken}
			}
		}
		return appendClaim(of, f.now()), nil
	})
	if err != nil {
		return err
	}
	if _, made := claims[member]; made || was != of {
		claims[member] = record.Version
	}
	return nil
}

// Withdraw takes claims back, unless others have changed them since.
func (f *Fleets) Withdraw(ctx context.Context, claims Claims) {
	own, cancel := f.targets.Detach(ctx)
	defer cancel()
	for member, version := range claims {
		_ = f.free(own, member, version) // what stays is taken over
	}
}

// free deletes a member's key, unless others have changed it since.
func (f *Fleets) free(ctx context.Context, member store.Key, version store.Version) error {
	result, err := f.members.DeleteVersion(ctx, member, version)
	if err == nil && result.Swapped {
		f.claimed.Leave(member.Cluster)
	}
	return err
}

// appendClaim is the value of a member's key: the fleet, a line break, and the instant in milliseconds.
func appendClaim(of string, at time.Time) []byte {
	return strconv.AppendInt([]byte(of+"\n"), at.UnixMilli(), 10)
}

// claimOf reads it; a claim without a readable instant is old.
func claimOf(value []byte) (of string, at time.Time) {
	of, instant, _ := strings.Cut(string(value), "\n")
	ms, _ := strconv.ParseInt(instant, 10, 64)
	return of, time.UnixMilli(ms)
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
	return slices.Contains(conversion.FleetMembers(stored.GetFleet()), member), nil
}

// specsAtOnce limits the specs that are read at once to see whether they are fleets'.
const specsAtOnce = 16

// Are reports which targets are fleets, by their stored specs: a record may have expired, or be behind. A spec that can't
// be read is none. beside is what records keep of the shadows of these specs. The errors are by target, nil for none.
func (f *Fleets) Are(ctx context.Context, keys []store.Key) (are []bool, beside [][]byte, errs []error) {
	are, beside = make([]bool, len(keys)), make([][]byte, len(keys))
	fail := func(i int, err error) {
		if errors.Is(err, store.ErrUnreadable) {
			return
		}
		if errs == nil {
			errs = make([]error, len(keys))
		}
		errs[i] = err
	}
	versions, err := f.specs.LoadVersions(ctx, keys) // most targets have none
	failed := store.ByItem(err, len(keys), len(versions))
	var stored []int
	for i := range keys {
		if failed != nil && failed[i] != nil {
			fail(i, failed[i])
		} else if versions[i] != "" {
			stored = append(stored, i)
		}
	}
	for some := range slices.Chunk(stored, specsAtOnce) {
		read := make([]store.Key, len(some))
		for at, i := range some {
			read[at] = keys[i]
		}
		records, err := f.specs.LoadBatch(ctx, read)
		failed := store.ByItem(err, len(read), len(records))
		for at, i := range some {
			if failed != nil && failed[at] != nil {
				fail(i, failed[at])
			} else {
				are[i], beside[i] = conversion.IsFleet(records[at].Value), shadows.OfStored(records[at].Value)
			}
		}
	}
	return are, beside, errs
}

// Fleets returns which of the targets are fleets.
func (f *Fleets) Fleets(ctx context.Context, names []string) (fleets []string, err error) {
	are, _, errs := f.Are(ctx, keysOf(names))
	for i, is := range are {
		if is {
			fleets = append(fleets, names[i])
		}
	}
	return fleets, errors.Join(errs...)
}

// Release takes targets out of a fleet whose stored spec no longer names them.
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
		if owner, _ := claimOf(record.Value); owner != of.String() {
			continue
		}
		// After the key: whoever names it again since then has written that, too.
		if again, err := f.names(ctx, of.String(), names[i]); err != nil {
			return err
		} else if again {
			continue
		}
		if err := f.free(ctx, keys[i], record.Version); err != nil {
			return err
		}
	}
	return nil
}

// taken returns which members of a fleet's spec are another fleet's, by their keys.
func (f *Fleets) taken(ctx context.Context, of store.Key, s *spec) (map[string]bool, error) {
	names := slices.Collect(maps.Keys(s.members))
	records, err := f.members.LoadBatch(ctx, keysOf(names))
	if err != nil {
		return nil, err
	}
	taken := make(map[string]bool)
	for i, record := range records {
		owner, _ := claimOf(record.Value)
		if owner == "" || owner == of.String() {
			continue
		}
		named, err := f.names(ctx, owner, names[i])
		if err != nil {
			return nil, err
		}
		if named {
			taken[names[i]] = true
		}
	}
	return taken, nil
}

// Stored puts the record of a fleet under a version of its spec that was just stored: from then on no call is
// answered under another one. A new fleet begins without what one of the same name has left.
func (f *Fleets) Stored(ctx context.Context, of store.Key, version store.Version, isNew bool) error {
	record, err := f.records.Load(ctx, of)
	if err != nil && !errors.Is(err, store.ErrUnreadable) {
		return err
	}
	_, err = store.Change(ctx, f.records, of, record, maxSwaps, f.kept.Room(ctx, of.Cluster, f.options.Shares.For(access.CallerOf(ctx))), func(record store.Record) ([]byte, error) {
		next := &state{spec: version}
		if before, err := decodeState(record.Value); err == nil && !isNew {
			known := *before
			known.spec, next = version, &known
		}
		return next.append(nil), nil
	})
	if err == nil {
		f.cache.Delete(of)
	}
	return err
}

// Delete deletes the record of a fleet whose spec was deleted, with its decisions, and releases its members.
func (f *Fleets) Delete(ctx context.Context, of store.Key, names []string) error {
	record, err := f.records.Load(ctx, of)
	if err != nil && !errors.Is(err, store.ErrUnreadable) {
		return err
	}
	if err != nil || record.Exists() { // the decisions before the record, so that what fails halfway is done when it is repeated
		if err := f.targets.Delete(ctx, &setpointv1.DeleteTargetRequest{Name: of.String()}); err != nil && status.Code(err) != codes.NotFound {
			return err
		}
	}
	existed, err := f.records.Delete(ctx, of)
	if err != nil {
		return err
	}
	if existed {
		f.kept.Leave(of.Cluster)
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
	owner, _ := claimOf(record.Value)
	named, err := f.names(ctx, owner, member.String())
	if err != nil || !named {
		return "", err
	}
	return owner, nil
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
	out := conversion.FleetState(of.String(), k.spec.stored, &k.spec.fleet, &k.state.fleet, &k.state.decisions.Status, k.state.decisions.Adjusted, f.now())
	f.tellInVain(ctx, k.spec, out.GetMembers())
	return out, nil
}

// InVain begins the error of a silent member that calls all the same.
const InVain = "it calls "

// tellInVain tells which silent members have called of late all the same: without the fleet's name, and were decided for
// alone, which whoever looks pays for, not the calls; or this instance has refused them. What can't be read is not told.
func (f *Fleets) tellInVain(ctx context.Context, s *spec, members []*setpointv1.FleetMemberStatus) {
	var silent []*setpointv1.FleetMemberStatus
	var names []string
	for _, m := range members {
		if state := m.GetState(); state != fleet.Fresh.String() && state != fleet.Returning.String() {
			silent, names = append(silent, m), append(names, m.GetTarget())
		}
	}
	if len(silent) == 0 {
		return
	}
	records, errs := f.targets.Load(ctx, keysOf(names))
	for i, m := range silent {
		lately := func(at time.Time) bool {
			last := m.GetLastCallTime()
			return f.now().Sub(at) <= s.fleet.StaleAfter && (last == nil || at.After(last.AsTime()))
		}
		if refused, _ := f.refused.Get(decision.ParseTarget(m.GetTarget())); lately(refused.at) {
			m.Error = InVain + "and is refused: " + refused.why
		}
		if errs != nil && errs[i] != nil || !records[i].Exists() {
			continue
		}
		if own, err := record.Decode(records[i].Value); err == nil && lately(own.Updated) {
			m.Error = InVain + "without naming the fleet, and is decided for alone: set fleet in all its calls"
		}
	}
}

// Decisions returns the record of a fleet's decisions, as they were shared out. It is nil if there is no such fleet.
func (f *Fleets) Decisions(ctx context.Context, of store.Key) (*record.Record, error) {
	k, err := f.load(ctx, of)
	switch {
	case errors.Is(err, errNoFleet):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return k.state.shared(), nil
}

func (f *Fleets) now() time.Time { return f.targets.Options.Clock() }

func keysOf(names []string) []store.Key {
	keys := make([]store.Key, len(names))
	for i, name := range names {
		keys[i] = decision.ParseTarget(name)
	}
	return keys
}
