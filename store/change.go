package store

import (
	"context"
	"errors"
	"fmt"
)

// ErrContended means that others changed a record too often meanwhile.
var ErrContended = errors.New("changed by others too often")

// Change changes a record as it is known, and again as others have left it, until no other write comes in between, at
// most that many times; then it fails with ErrContended. next returns the value for a record, or an error to stop with.
// room reserves space for what the value takes more than the record, or refuses it; settled gets whether it was
// stored. Nil: there is always room.
func Change(ctx context.Context, in Store, key Key, record Record, attempts int, room func(more Usage) (settled func(stored bool), err error), next func(Record) ([]byte, error)) (Record, error) {
	for range attempts {
		value, err := next(record)
		if err != nil {
			return Record{}, err
		}
		more := Usage{Bytes: int64(len(value) - len(record.Value))}
		if !record.Exists() {
			more.Keys = 1
		}
		settled := func(bool) {}
		if room != nil && (more.Keys > 0 || more.Bytes > 0) {
			if settled, err = room(more); err != nil {
				return Record{}, err
			}
		}
		result, err := in.CompareAndSwap(ctx, Swap{Key: key, Old: record.Version, Value: value})
		settled(err != nil || result.Swapped) // a failed swap may have been stored
		if err != nil {
			return Record{}, err
		}
		if record = result.Record; result.Swapped {
			record.Value = value
			return record, nil
		}
	}
	return Record{}, fmt.Errorf("%w: %d times", ErrContended, attempts)
}
