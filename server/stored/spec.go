package stored

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/store"
)

// SetSpec stores a valid spec in the name of a caller, and returns it as stored, and what it takes the place of,
// nil: nothing, or nothing that can be read. ErrChanged if its etag is another version's, ErrGone if nothing is stored; ErrDissolves if it has none,
// and no fleet, where a fleet's is stored.
func (t *Targets) SetSpec(ctx context.Context, key store.Key, spec *setpointv1.TargetSpec, by string) (as, instead *setpointv1.TargetSpec, err error) {
	now := timestamppb.New(t.options.Clock())
	stored := proto.Clone(spec).(*setpointv1.TargetSpec)
	stored.Name, stored.Etag, stored.Hash, stored.UpdatedBy = "", "", "", by
	stored.CreateTime, stored.UpdateTime = now, now
	record, err := t.swap(ctx, store.Specs, key, func(record store.Record) ([]byte, error) {
		if spec.GetEtag() != "" && !record.Exists() {
			return nil, ErrGone
		}
		if spec.GetEtag() != "" && spec.GetEtag() != etag(record.Version) {
			return nil, ErrChanged
		}
		stored.CreateTime, instead = now, nil
		if record.Exists() {
			// An unreadable spec may be replaced.
			if before, err := decodeSpec(key, record); err == nil {
				stored.CreateTime, instead = before.GetCreateTime(), before
				if before.GetFleet() != nil && spec.GetFleet() == nil && spec.GetEtag() == "" {
					return nil, ErrDissolves
				}
			}
		}
		value, err := proto.Marshal(stored)
		if err == nil && len(value) > t.options.MaxSpecBytes {
			return nil, &TooLargeError{"maxSpecBytes", t.options.MaxSpecBytes, len(value)}
		}
		return value, err
	})
	if err != nil {
		return nil, nil, err
	}
	as, err = decodeSpec(key, record)
	return as, instead, err
}

// VersionOf returns the version of the record of a stored spec.
func VersionOf(spec *setpointv1.TargetSpec) store.Version {
	version, _ := hex.DecodeString(spec.GetEtag())
	return store.Version(version)
}

// Spec returns a stored spec; ErrNoSpec if there is none.
func (t *Targets) Spec(ctx context.Context, key store.Key) (*setpointv1.TargetSpec, error) {
	record, err := t.specs.Load(ctx, key)
	if err != nil {
		return nil, err
	}
	return decodeSpec(key, record)
}

// SpecsOf returns the stored specs of keys, in their order, without missing ones, until one
// does not fit, but at least one: kept is the number of keys covered. An unreadable one has
// only its name.
func (t *Targets) SpecsOf(ctx context.Context, keys []store.Key, fits func(*setpointv1.TargetSpec) bool) (specs []*setpointv1.TargetSpec, kept int, err error) {
	records, err := t.specs.LoadBatch(ctx, keys)
	var failed store.BatchError
	if err != nil && !errors.As(err, &failed) {
		return nil, 0, err
	}
	for i, record := range records {
		if failed != nil && failed[i] != nil {
			if !errors.Is(failed[i], store.ErrUnreadable) {
				return nil, 0, failed[i]
			}
			specs = append(specs, &setpointv1.TargetSpec{Name: keys[i].String()})
			continue
		}
		if len(record.Value) == 0 {
			continue // deleted since it was listed
		}
		spec, err := decodeSpec(keys[i], record)
		if err != nil {
			spec = &setpointv1.TargetSpec{Name: keys[i].String(), Etag: etag(record.Version)}
		}
		if !fits(spec) && i > 0 {
			return specs, i, nil
		}
		specs = append(specs, spec)
	}
	return specs, len(keys), nil
}

// DeleteSpec deletes a stored spec and the target's observations. ErrNoSpec if there is
// none, ErrChanged if it is not the version of the etag; "" is any.
func (t *Targets) DeleteSpec(ctx context.Context, key store.Key, version string) error {
	existed, err := t.deleteSpec(ctx, key, version)
	if err != nil {
		return err
	}
	if existed {
		t.options.Left(store.Specs, key)
	}
	// Even without a spec: an earlier delete may have failed halfway.
	observed, err := t.observations.Delete(ctx, key)
	if observed && err == nil {
		t.options.Left(store.Observations, key)
	}
	if err == nil && !existed {
		err = ErrNoSpec
	}
	return err
}

// deleteSpec deletes a stored spec of a version, "" of any, and reports whether there was
// one. ErrChanged if there is another one.
func (t *Targets) deleteSpec(ctx context.Context, key store.Key, version string) (existed bool, err error) {
	if version == "" {
		return t.specs.Delete(ctx, key)
	}
	exact, err := hex.DecodeString(version)
	if err != nil { // no stored spec has this etag
		record, err := t.specs.Load(ctx, key)
		if err == nil && len(record.Value) > 0 {
			err = ErrChanged
		}
		return false, err
	}
	result, err := t.specs.DeleteVersion(ctx, key, store.Version(exact))
	switch {
	case err != nil:
		return false, err
	case len(result.Record.Value) > 0:
		return false, ErrChanged
	}
	return result.Swapped, nil
}

// decodeSpec decodes a stored spec; ErrNoSpec if there is none. A valid one is not empty;
// earlier versions left empty ones when a delete did not finish.
func decodeSpec(key store.Key, record store.Record) (*setpointv1.TargetSpec, error) {
	if len(record.Value) == 0 {
		return nil, ErrNoSpec
	}
	spec := &setpointv1.TargetSpec{}
	if err := proto.Unmarshal(record.Value, spec); err != nil {
		return nil, &UnreadableError{"spec", err}
	}
	spec.Name, spec.Etag = key.String(), etag(record.Version)
	spec.Hash = conversion.SpecHash(conversion.HashOfSpec(spec.GetSpec(), spec.GetOptions(), spec.GetStages()))
	return spec, nil
}

// etag is the version in the form for callers.
func etag(v store.Version) string { return hex.EncodeToString([]byte(v)) }

// period is how long a decision by the spec serves further calls.
func period(spec *setpointv1.TargetSpec) time.Duration {
	if spec.GetPeriod() == nil {
		return DefaultPeriod
	}
	return spec.GetPeriod().AsDuration()
}

// maxAge is the maximum age of observations for the spec.
func maxAge(spec *setpointv1.TargetSpec) time.Duration {
	if spec.GetObservationMaxAge() == nil {
		return DefaultMaxAge
	}
	return spec.GetObservationMaxAge().AsDuration()
}
