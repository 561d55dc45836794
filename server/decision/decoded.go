package decision

import (
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/store"
)

// decoded caches the record on which the jobs of one target in a batch decide, so that a job
// need not decode what the previous one decoded or stored: a history may be a hundred times
// as large as a request. It is read only, as the recommender treats it. A nil one caches
// nothing.
type decoded struct {
	known   bool
	version store.Version
	record  record.Record
	// next is the record of the next swap.
	next record.Record
}

// of puts what is in an existing record of the store into known. A cached one has its own memory, any other
// uses the given one.
func (d *decoded) of(stored *store.Record, memory *record.Memory, known *record.Record) error {
	if d == nil {
		return memory.DecodePacked(stored.Value, known)
	}
	if d.known && d.version == stored.Version {
		*known = d.record
		return nil
	}
	var err error
	*known, err = record.Decode(stored.Value)
	d.known, d.version, d.record = err == nil, stored.Version, *known
	return err
}

// storing sets the record of the next swap.
func (d *decoded) storing(next *record.Record) {
	if d != nil {
		d.next = *next
	}
}

// stored records that the swap succeeded, with this version.
func (d *decoded) stored(version store.Version) {
	if d == nil {
		return
	}
	known, err := record.AsStored(&d.next)
	d.known, d.version, d.record = err == nil, version, known
}
