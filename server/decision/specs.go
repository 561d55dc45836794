package decision

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/codec"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/shares"
	"github.com/setpoint-dev/setpoint/store"
)

const (
	// maxSpecInUse limits the stored text of a spec, in bytes, as that of stored specs. A longer one
	// is not stored.
	maxSpecInUse = 256 << 10
	// maxSpecSwaps limits the attempts to store texts while other callers do.
	maxSpecSwaps = 4
	// specsAgain is after how long a text is stored again if records never expire.
	specsAgain = 24 * time.Hour
)

// Specs keeps the texts of the specs in use, one a target, beside the records. A record has the hash of
// the spec that decided last; its text is stored when the hash changes, before the record. No decision
// depends on it: if it can't be stored, the record says so, and the next decision stores it.
type Specs struct {
	texts  store.PartStore
	shares *shares.Shares
	// again is after how many minutes a text is stored again: it must not expire before its record.
	again int64
}

// NewSpecs returns the specs in use in the engine of the targets, limited by cluster like their
// records; nil if it keeps no parts.
func NewSpecs(t *Targets, engine store.Store) (*Specs, error) {
	parts, ok := engine.(store.Parts)
	if !ok {
		return nil, nil
	}
	ttl, again := 2*t.Options.HistoryTTL, specsAgain
	if ttl > 0 {
		again = t.Options.HistoryTTL
	}
	counted, err := parts.Part(store.SpecsInUse, ttl)
	if err != nil {
		return nil, err
	}
	texts, err := t.store.(store.Parts).Part(store.SpecsInUse, ttl)
	return &Specs{texts, shares.New(counted, t.Options.Shares(), nil), int64(again / time.Minute)}, err
}

// isKept reports whether the text was stored lately enough at an instant, in minutes. Clocks of
// instances may differ.
func (s *Specs) isKept(use *record.SpecUse, now int64) bool {
	return use.Kept != 0 && max(now-use.Kept, use.Kept-now) <= s.again
}

// specAfter returns which spec is in use after the decision, as if its text could be stored.
func (j *Job) specAfter(known *record.Record) record.SpecUse {
	use, now := known.Spec, j.Decision.At.UnixNano()
	if use.Hash != j.SpecHash {
		use = record.SpecUse{Hash: j.SpecHash}
		if known.Spec.Hash != 0 || !known.Seen {
			use.Since = j.Decision.At.UnixMilli()
		}
	}
	// Without the store nothing can be stored beside it.
	if specs := j.targets.Specs; specs == nil || j.Input.HoldDown || j.Spec == nil || specs.isKept(&use, codec.Minutes(now)) {
		j.keeps = false
	} else {
		j.keeps, use.Kept = true, codec.Minutes(now)
	}
	return use
}

// keepSpecs stores the texts of specs that changed, and lets those records that they could not be
// stored for say so.
func (r *rounds) keepSpecs(ctx context.Context) {
	var keeping []keptSpec
	for i, q := range r.swapping {
		if j, ok := q.changes[0].(*Job); ok && j.keeps {
			keeping = append(keeping, keptSpec{job: j, swap: i})
		}
	}
	if len(keeping) == 0 {
		return
	}
	own := r.detach(ctx)
	defer own.Cancel()
	r.Specs.keep(own, keeping)
	for i := range keeping {
		k := &keeping[i]
		if k.done {
			continue
		}
		if value, err := record.WithoutSpec(r.swaps[k.swap].Value); err == nil {
			r.swaps[k.swap].Value = value
		}
		if k.job.history != nil {
			k.job.history.next.Spec.Kept = 0
		}
	}
}

// keptSpec is a text to store for a job.
type keptSpec struct {
	job *Job
	// swap is the index of the job's swap.
	swap int
	text []byte
	// old is the stored text, and more what is reserved for the new one.
	old  store.Record
	more store.Usage
	// done reports whether it need not be tried again with the next decision.
	done bool
}

// keep stores texts, all in one round trip if they are the first of their targets.
func (s *Specs) keep(ctx context.Context, keeping []keptSpec) {
	var left []*keptSpec
	for i := range keeping {
		k := &keeping[i]
		var err error
		if k.text, err = proto.Marshal(k.job.Spec.SpecInUse()); err != nil || len(k.text) > maxSpecInUse {
			k.done = true // nor would the next one be shorter
			continue
		}
		left = append(left, k)
	}
	for range maxSpecSwaps {
		if left = s.swap(ctx, left); len(left) == 0 {
			return
		}
	}
}

// swap tries to store texts, and returns those that others were in the way of.
func (s *Specs) swap(ctx context.Context, keeping []*keptSpec) (left []*keptSpec) {
	var swaps []store.Swap
	var swapping []*keptSpec
	for _, k := range keeping {
		if k.more = (store.Usage{Bytes: int64(len(k.text) - len(k.old.Value))}); !k.old.Exists() {
			k.more.Keys = 1
		}
		if k.more.Bytes < 0 {
			k.more.Bytes = 0
		}
		if err := s.shares.Place(ctx, k.job.Key.Cluster, k.more, k.job.Bounds); err != nil {
			k.done = true // there is no room: again when it would be stored again
			continue
		}
		swaps = append(swaps, store.Swap{Key: k.job.Key, Old: k.old.Version, Value: k.text})
		swapping = append(swapping, k)
	}
	if len(swaps) == 0 {
		return nil
	}
	results, err := s.texts.CompareAndSwapBatch(ctx, swaps)
	errs := store.ByItem(err, len(swaps), len(results))
	for i, k := range swapping {
		failed := errs != nil && errs[i] != nil
		k.done = !failed && results[i].Swapped
		s.shares.Settle(k.job.Key.Cluster, k.more, failed || k.done)
		if !failed && !k.done {
			k.old = results[i].Record
			left = append(left, k)
		}
	}
	return left
}

// delete deletes a target's text.
func (s *Specs) delete(ctx context.Context, key store.Key) error {
	if s == nil {
		return nil
	}
	existed, err := s.texts.Delete(ctx, key)
	if existed {
		s.shares.Leave(key.Cluster)
	}
	return err
}

// Of returns the specs in use of some records, nil where one is unknown, and how many of the keys fit
// into that many bytes, at least one. A key without a record has a nil one.
func (s *Specs) Of(ctx context.Context, keys []store.Key, records []*record.Record, bytes int) (specs []*setpointv1.SpecInUse, kept int, err error) {
	specs = make([]*setpointv1.SpecInUse, len(keys))
	if s == nil {
		return specs, len(keys), nil
	}
	texts, err := s.texts.LoadBatch(ctx, keys)
	errs := store.ByItem(err, len(keys), len(texts))
	for i := range keys {
		if errs != nil && errs[i] != nil {
			if errors.Is(errs[i], store.ErrUnreadable) {
				continue
			}
			return nil, 0, fmt.Errorf("the spec in use of %s: %w", keys[i], errs[i])
		}
		if bytes -= len(texts[i].Value); bytes < 0 && i > 0 {
			return specs[:i], i, nil
		}
		specs[i] = inUse(records[i], texts[i].Value)
	}
	return specs, len(keys), nil
}

// inUse returns the spec in use of a record, nil if the text is not that of its spec.
func inUse(of *record.Record, text []byte) *setpointv1.SpecInUse {
	if of == nil || of.Spec.Hash == 0 || len(text) == 0 {
		return nil
	}
	spec := &setpointv1.SpecInUse{}
	if err := proto.Unmarshal(text, spec); err != nil || spec.GetHash() != conversion.SpecHash(of.Spec.Hash) {
		return nil
	}
	spec.SinceTime = conversion.Milliseconds(of.Spec.Since)
	return spec
}
